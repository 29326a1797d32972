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

// Options says how the library is built. Dir is required.
type Options struct {
	// Dir receives one folder per build, named by a hash of sources, flags and
	// compiler.
	Dir string
	// CC is the compiler; one for another system makes a library for that:
	// x86_64-w64-mingw32-gcc a QnnHtp.dll. Empty means the first of cc, gcc and
	// clang.
	CC string
	// Sanitize is the value of -fsanitize, such as "address,undefined". Empty
	// means none.
	Sanitize string
	// Logger receives what is built and how long it took. Nil means silence.
	Logger *slog.Logger
	// Begin, when set, is called before the compiler is: it will take a while.
	Begin func()
}

// Build compiles libQnnHtp.so, or QnnHtp.dll, unless it is there already, and returns its path.
//
// The library appears under its name only when it is whole, so any number of
// processes may build at once and a killed build leaves nothing that looks like
// a result. A first build takes some seconds; cancelling ctx kills the compiler.
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
	args[slices.Index(args, "-O2")] = "-O0" // gcc 12 needs two minutes to optimise checked kernels
	return args
}

// findCompiler returns the compiler's path and version: an upgraded compiler is
// another compiler.
func findCompiler(ctx context.Context, wanted string) (path, version string, err error) {
	candidates := []string{"cc", "gcc", "clang"}
	if wanted != "" {
		candidates = []string{wanted}
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
	return "", "", fmt.Errorf("%v not found: %w", candidates, ErrNoCompiler)
}

// build compiles in a temporary folder beside the result and renames the
// library into its place.
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

// compileAll compiles the files side by side, one per processor.
func compileAll(ctx context.Context, compiler string, args []string, work string, files []string) ([]string, error) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	objects, failures := make([]string, len(files)), make([]error, len(files))
	for i, file := range files {
		source := filepath.Base(file)
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
