package emulator

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/trust"
)

// fakeCompiler writes a script that acts like a compiler and counts its calls, so that
// tests of the builder are fast.
func fakeCompiler(t *testing.T, extra string) (path string, calls func() int) {
	dir := t.TempDir()
	path = filepath.Join(dir, "fakecc")
	script := `#!/bin/sh
[ "$1" = --version ] && { echo fake 1; exit; }
echo "$*" >> ` + dir + `/calls
` + extra + `
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo built > "$2"; shift; done
`
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path, func() int {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if os.IsNotExist(err) {
			return 0
		}
		require.NoError(t, err)
		return strings.Count(string(text), "\n")
	}
}

func TestBuildTwiceCompilesOnce(t *testing.T) {
	compiler, calls := fakeCompiler(t, "")
	begun := 0
	options := Options{Dir: t.TempDir(), CC: compiler, Begin: func() { begun++ }}
	first, err := Build(t.Context(), options)
	require.NoError(t, err)
	files, err := cFiles()
	require.NoError(t, err)
	require.Equal(t, len(files)+1, calls())
	second, err := Build(t.Context(), options)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, len(files)+1, calls())
	require.Equal(t, 1, begun, "an existing library is not built again")
	require.Equal(t, "libQnnHtp.so", filepath.Base(first))
}

// TestLibraryIsNotWritableByOthers builds with umask 0, as some containers and
// services run programs.
func TestLibraryIsNotWritableByOthers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	compiler, calls := fakeCompiler(t, `chmod_output() { chmod 0777 "$1"; }`)
	text, err := os.ReadFile(compiler)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(compiler, []byte(strings.Replace(string(text), `built > "$2"`, `built > "$2" && chmod_output "$2"`, 1)), 0o755))
	top := t.TempDir()
	require.NoError(t, os.Chmod(top, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(top), 0o755))
	options := Options{Dir: filepath.Join(top, "emulator"), CC: compiler}
	library, err := Build(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, filepath.Walk(top, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o022, path)
		return nil
	}))
	built := calls()
	for _, path := range []string{library, filepath.Dir(library), options.Dir} {
		require.NoError(t, os.Chmod(path, 0o777))
		_, err = Build(t.Context(), options)
		require.ErrorIs(t, err, trust.ErrUntrusted, path)
		require.NoError(t, os.Chmod(path, 0o755))
	}
	require.NoError(t, os.Remove(library))
	require.NoError(t, os.Chmod(options.Dir, 0o777))
	_, err = Build(t.Context(), options)
	require.ErrorIs(t, err, trust.ErrUntrusted)
	require.Equal(t, built, calls(), "nothing is compiled where others can exchange it")
}

func TestFlagsAndCompilersNameTheFolder(t *testing.T) {
	one, _ := fakeCompiler(t, "")
	two, _ := fakeCompiler(t, "")
	dir, seen := t.TempDir(), map[string]bool{}
	for _, options := range []Options{
		{Dir: dir, CC: one},
		{Dir: dir, CC: two},
		{Dir: dir, CC: one, Sanitize: "address"},
		{Dir: dir, CC: one, Sanitize: "thread"},
	} {
		path, err := Build(t.Context(), options)
		require.NoError(t, err)
		require.False(t, seen[path], path)
		seen[path] = true
	}
}

func TestConcurrentBuildsAgree(t *testing.T) {
	compiler, _ := fakeCompiler(t, "")
	options := Options{Dir: t.TempDir(), CC: compiler}
	paths, errs := make([]string, 6), make([]error, 6)
	var wait sync.WaitGroup
	for i := range paths {
		wait.Go(func() { paths[i], errs[i] = Build(t.Context(), options) })
	}
	wait.Wait()
	for i := range paths {
		require.NoError(t, errs[i])
		require.Equal(t, paths[0], paths[i])
	}
	left, err := os.ReadDir(filepath.Dir(paths[0]))
	require.NoError(t, err)
	require.Len(t, left, 1, "only the library remains")
}

func TestFailedBuildLeavesNoLibrary(t *testing.T) {
	compiler, _ := fakeCompiler(t, `case "$*" in *-shared*) echo "ld: no room" >&2; exit 1;; esac`)
	dir := t.TempDir()
	_, err := Build(t.Context(), Options{Dir: dir, CC: compiler})
	require.ErrorContains(t, err, "ld: no room")
	found, err := filepath.Glob(filepath.Join(dir, "*", "libQnnHtp.so"))
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestMissingCompilerIsNamedWithItsInstallCommand(t *testing.T) {
	_, err := Build(t.Context(), Options{Dir: t.TempDir(), CC: "no-such-compiler"})
	require.ErrorIs(t, err, ErrNoCompiler)
	require.ErrorContains(t, err, "apt-get install gcc")
	require.ErrorContains(t, err, "no-such-compiler")
	_, err = Build(t.Context(), Options{})
	require.ErrorContains(t, err, "Dir")
}

func TestLibraryExportsItsTwoSymbols(t *testing.T) {
	for _, compiler := range []string{"gcc", "clang"} {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skipf("%v: apt-get install %s", err, compiler)
			}
			path, err := Build(t.Context(), Options{Dir: t.TempDir(), CC: compiler})
			require.NoError(t, err)
			library, err := elf.Open(path)
			require.NoError(t, err)
			defer library.Close()
			symbols, err := library.DynamicSymbols()
			require.NoError(t, err)
			var exported []string
			for _, symbol := range symbols {
				if symbol.Section != elf.SHN_UNDEF {
					exported = append(exported, symbol.Name)
				}
			}
			require.ElementsMatch(t, []string{"QnnInterface_getProviders", "QnnSystemInterface_getProviders"}, exported)
		})
	}
}

func TestCancelledBuildKillsTheCompiler(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "started")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	compiler, _ := fakeCompiler(t, "echo > "+pipe+"; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := Build(ctx, Options{Dir: t.TempDir(), CC: compiler})
		done <- err
	}()
	_, err := os.ReadFile(pipe) // ReadFile returns when the fake compiler has opened the pipe
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func ExampleBuild() {
	dir, err := os.MkdirTemp("", "emulator")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path, err := Build(context.Background(), Options{Dir: dir})
	fmt.Println(filepath.Base(path), err)
	// Output: libQnnHtp.so <nil>
}
