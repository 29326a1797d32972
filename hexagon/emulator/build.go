package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrNoCompiler is returned when no C compiler is found.
var ErrNoCompiler = errors.New("no C compiler: apt-get install gcc")

// Options configures a build. Dir is required.
type Options struct {
	// Dir receives one folder per build, named by a hash of sources, flags and
	// compiler.
	Dir string
	// CC is the compiler. Empty means the first of cc, gcc and clang. A cross compiler
	// builds for its system: x86_64-w64-mingw32-gcc makes a QnnHtp.dll.
	CC string
	// Sanitize is the value of -fsanitize, such as "address,undefined". Empty
	// means none.
	Sanitize string
	// Logger receives the start and the duration of a build. Nil means silence.
	Logger *slog.Logger
	// Begin, if set, is called before compilation starts, which takes seconds.
	Begin func()
}

// Build returns the path of libQnnHtp.so or QnnHtp.dll and compiles it if it does not
// exist.
//
// The library gets its name only when it is complete. So several processes may build at
// once, and a killed build leaves no broken library. A first build takes some seconds.
// Cancelling ctx kills the compiler.
func Build(ctx context.Context, options Options) (string, error) {
	if options.Dir == "" {
		return "", errors.New("emulator: Options.Dir is empty")
	}
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("emulator: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	compiler, version, err := findCompiler(ctx, options.CC)
	if err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	kind := platformOf(version)
	args := slices.Concat(arguments(options.Sanitize), kind.flags)
	name, err := sourceHash(compiler+"\n"+version, slices.Concat(args, kind.link))
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(filepath.Join(options.Dir, name))
	if err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	library := filepath.Join(folder, kind.library)
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	if options.Logger != nil {
		options.Logger.Info("building the emulator, once", "compiler", compiler)
	}
	if options.Begin != nil {
		options.Begin()
	}
	start := time.Now()
	if err := build(ctx, compiler, args, kind.link, library); err != nil {
		return "", fmt.Errorf("emulator: build: %w", err)
	}
	if options.Logger != nil {
		options.Logger.Info("emulator built", "path", library, "took", time.Since(start).Round(time.Millisecond))
	}
	return library, nil
}

func arguments(sanitize string) []string {
	if sanitize == "" {
		return flags
	}
	args := append(slices.Clone(flags), "-fsanitize="+sanitize, "-fno-sanitize-recover=all")
	args[slices.Index(args, "-O2")] = "-O0" // gcc 12 takes two minutes to optimise sanitized kernels
	return args
}

// findCompiler returns the compiler's path and version. Both name the build, so an
// upgraded compiler builds again.
func findCompiler(ctx context.Context, name string) (path, version string, err error) {
	candidates := []string{"cc", "gcc", "clang"}
	if name != "" {
		candidates = []string{name}
	}
	for _, candidate := range candidates {
		path, err = exec.LookPath(candidate)
		if err != nil {
			continue
		}
		text, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return "", "", fmt.Errorf("%s --version: %w", path, err)
		}
		return path, string(text), nil
	}
	return "", "", fmt.Errorf("%v: not found: %w", candidates, ErrNoCompiler)
}

// build compiles in a temporary folder next to the result and renames the library into
// its place.
func build(ctx context.Context, compiler string, args, link []string, library string) error {
	folder, name := filepath.Split(library)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(folder, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := WriteSources(work); err != nil {
		return err
	}
	files, err := cFiles()
	if err != nil {
		return err
	}
	objects, err := compileAll(ctx, compiler, args, work, files)
	if err != nil {
		return err
	}
	if err := run(ctx, work, compiler, slices.Concat(args, link, []string{"-o", name}, objects, []string{"-lm"})); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, name), library)
}

// compileAll compiles the files, whose paths start at the folder work, on all
// processors, and returns the object files' paths in the same order.
func compileAll(ctx context.Context, compiler string, args []string, work string, files []string) ([]string, error) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	objects, failures := make([]string, len(files)), make([]error, len(files))
	for i, source := range files {
		objects[i] = source[:len(source)-len(".c")] + ".o"
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			failures[i] = run(ctx, work, compiler, slices.Concat(args, []string{"-c", source, "-o", objects[i]}))
		})
	}
	wait.Wait()
	return objects, errors.Join(failures...)
}

func run(ctx context.Context, dir, name string, args []string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, output)
	}
	return nil
}
