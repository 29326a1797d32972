package emulator

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run ./profilegen csrc/pace_profiles_gen.c

//go:embed csrc/*.c csrc/*.h
var sources embed.FS

// platform is what a compiler makes.
type platform struct {
	library     string   // the vendor's name, so the loader cannot tell them apart
	flags, link []string // beside those that all have
}

// unix refuses undefined symbols: better here than when a program loads it.
var unix = platform{
	library: "libQnnHtp.so",
	link:    []string{"-shared", "-Wl,-z,defs", "-Wl,-soname,libQnnHtp.so"},
}

// windows carries the compiler's own libraries with it and brings what POSIX
// has. GCC aligns the stack to 16 bytes there and spills wider vectors to it as
// if it were more: the assembler makes those moves unaligned ones.
var windows = platform{
	library: "QnnHtp.dll",
	flags: []string{
		"-D__USE_MINGW_ANSI_STDIO=1", "-Wno-format", "-Wno-format-extra-args",
		"-Wa,-muse-unaligned-vector-move", "-include", "host_windows.h",
	},
	link: []string{"-shared", "-static"},
}

// platformOf reads it out of what a compiler says of itself.
func platformOf(version string) platform {
	if strings.Contains(version, "mingw32") {
		return windows
	}
	return unix
}

// flags are part of the library's identity: other flags, other folder.
// -ffp-contract=off keeps the rule of sums; only one symbol is exported. Warnings
// are errors in our tests only: a compiler newer than ours must not stop a user.
var flags = []string{
	"-std=c11", "-O2", "-g", "-Wall", "-Wextra",
	"-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-pthread",
}

func cFiles() ([]string, error) {
	files, err := fs.Glob(sources, "csrc/*.c")
	if err != nil {
		return nil, fmt.Errorf("emulator: embedded sources: %w", err)
	}
	return files, nil
}

// sourceHash names a build: equal names, equal libraries.
func sourceHash(compiler string, args []string) (string, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n", compiler, strings.Join(args, "\x00"))
	err := fs.WalkDir(sources, "csrc", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		fmt.Fprintf(hash, "%s %d\n", name, len(text))
		hash.Write(text)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:16], err
}

// WriteSources writes the C sources into the folder dir, which exists. It is for
// those who compile them in another way, such as a test that links them with a
// driver of its own.
func WriteSources(dir string) error {
	return fs.WalkDir(sources, "csrc", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644)
	})
}
