package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/hexagon"
)

// originalName is what Ollama's llama-server is called beside ours.
const originalName = "llama-server.orig"

// errOriginalIsUs is returned where this program stands in the original's place.
var errOriginalIsUs = errors.New("this is sdnpu and not Ollama's own llama-server: put Ollama's there")

// settings are the machine's: where things lie and which chip is meant. What a
// model wants stands in its config (package config).
type settings struct {
	// library selects the device: "emulator", "float", a path, or empty for the
	// first libQnnHtp.so that is found.
	library string
	// building, when set, is told that the emulator has to be compiled.
	building func()
	// soc is the vendor's number of the chip; 0 leaves it to the library.
	soc uint32
	// costs lets the device account for its calls.
	costs bool
	// clock is whose time the emulator was asked to keep, as the user wrote it;
	// empty means our own.
	clock string
	// cache is the folder of compiled images; empty means none.
	cache string
	// cacheSize is what the folder keeps, as the user wrote it; empty means the
	// default.
	cacheSize string
	// prepared are folders of images that were compiled on another machine.
	prepared []string
	// sharing is the device's, when images are compiled for another machine.
	sharing hexagon.Sharing
	// original is the llama-server that models not selected are handed to.
	original string
	// compileInline compiles in this process; else a child may be silent for
	// compilePatience, 0 for the usual time.
	compileInline   bool
	compilePatience time.Duration
	// gateOff lets recipes pass that a check found below their gate.
	gateOff bool
}

// x86SoC is the chip that the x86-64 libraries compile for where the user names
// none: SM8650. Their own default cannot run float32 RmsNorm.
const x86SoC = 57

// readSettings reads the machine's variables.
func readSettings() (settings, error) {
	s := settings{library: os.Getenv("SDNPU_LIBRARY"), original: os.Getenv("SDNPU_ORIGINAL"), cacheSize: os.Getenv("SDNPU_CACHE_SIZE")}
	if setting := os.Getenv("SDNPU_EMULATOR"); strings.Contains(setting, "profile=") {
		s.clock, s.costs = setting, true
	}
	if runtime.GOARCH == "amd64" {
		s.soc = x86SoC
	}
	if v := os.Getenv("SDNPU_SOC"); v != "" {
		chip, err := hexagon.FindChip(v)
		if err != nil {
			return s, fmt.Errorf("SDNPU_SOC: %w", err)
		}
		s.soc = chip.SoC
	}
	s.prepared = filepath.SplitList(os.Getenv("SDNPU_PREPARED"))
	if s.cacheSize != "" {
		if _, err := config.ParseSize(s.cacheSize, defaultCacheSize); err != nil {
			return s, fmt.Errorf("SDNPU_CACHE_SIZE: %w", err)
		}
	}
	switch v := os.Getenv(gateVariable); v {
	case "", "on":
	case "off":
		s.gateOff = true
	default:
		return s, fmt.Errorf("%s=%q: on or off wanted", gateVariable, config.Short(v))
	}
	if err := s.readCompile(os.Getenv("SDNPU_COMPILE")); err != nil {
		return s, err
	}
	switch v := os.Getenv("SDNPU_CACHE"); v {
	case "off":
	case "":
		var err error
		if s.cache, err = cacheFolder("images"); err != nil {
			return s, fmt.Errorf("%w: set SDNPU_CACHE to a folder of your own, or to off", err)
		}
	default:
		s.cache = v
	}
	return s, nil
}

// cacheFolder is our folder of that name in the user's cache. A user without a
// home has one among the temporary files, where others could have been first:
// what lies there is run, so it must be private.
func cacheFolder(name string) (string, error) {
	if base, err := os.UserCacheDir(); err == nil {
		return filepath.Join(base, "sdnpu", name), nil
	}
	base := filepath.Join(os.TempDir(), fmt.Sprintf("sdnpu-%d", os.Getuid()))
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || !private(info) {
		return "", fmt.Errorf("%s is not a private folder of this user", base)
	}
	return filepath.Join(base, name), nil
}

// cacheParent is the folder that the image cache lies in, or that of temporary
// files where there is no cache.
func (s settings) cacheParent() string {
	if s.cache == "" {
		return os.TempDir()
	}
	return filepath.Dir(s.cache)
}

// hostDebugs reports whether Ollama was started with its own OLLAMA_DEBUG.
func hostDebugs() bool {
	v := os.Getenv("OLLAMA_DEBUG")
	on, err := strconv.ParseBool(v)
	return on || v != "" && err != nil // a number above 1 is more of it
}

// programFolders are the folders in which files may lie beside this program: as
// it was called, and as the file that it is.
func programFolders(arg0 string) []string {
	var folders []string
	if filepath.Base(arg0) != arg0 {
		folders = append(folders, filepath.Dir(arg0))
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		if dir := filepath.Dir(exe); len(folders) == 0 || dir != folders[0] {
			folders = append(folders, dir)
		}
	}
	return folders
}

// findOriginal returns the llama-server that was here before us, or "".
func (s settings) findOriginal(arg0 string) (string, error) {
	if s.original != "" {
		if _, err := os.Stat(s.original); err != nil {
			return "", fmt.Errorf("SDNPU_ORIGINAL: %w", err)
		}
		if sameProgram(s.original) { // it would start itself for ever
			return "", fmt.Errorf("SDNPU_ORIGINAL=%s: %w", s.original, errOriginalIsUs)
		}
		return s.original, nil
	}
	name := originalName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, folder := range programFolders(arg0) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !sameProgram(path) {
			return path, nil
		}
	}
	return "", nil
}
