//go:build linux && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestStdoutStaysClean executes the linear graph in a child process whose stdout is a pipe.
// Before it ends, the child flushes C's output buffers, which may still hold a line of the
// library.
func TestStdoutStaysClean(t *testing.T) {
	const marker = "SDNPU_TEST_STDOUT_CHILD"
	if path := os.Getenv(marker); path != "" {
		s := openSession(t, path)
		l := newLinear(t, "l")
		l.run(t, l.build(t, s.backend, s.newContext(t), "g", nil))
		_, err := os.Stdout.WriteString("the child's own line\n")
		require.NoError(t, err)
		invoke(libc("fflush"), 0) // a Go program ends without C's exit, so C would not flush its buffers
		return
	}
	onEachLibrary(t, func(t *testing.T, path string) {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStdoutStaysClean$")
		child.Env = append(os.Environ(), marker+"="+path)
		out, err := child.Output()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "the child's own line\nPASS\n", string(out))
	})
}

// TestVariablesReachTheCLibrary requires that C's getenv, by which the DSP's driver reads
// its search path, sees variables that were set from Go.
func TestVariablesReachTheCLibrary(t *testing.T) {
	getenv := libc("getenv")
	require.NotZero(t, getenv)
	name, err := cString("ADSP_LIBRARY_PATH")
	require.NoError(t, err)
	for _, want := range []string{"/a/folder", "/another;/a/folder"} {
		t.Setenv("ADSP_LIBRARY_PATH", want)
		value := invoke(getenv, uintptr(unsafe.Pointer(name)))
		require.NotZero(t, value)
		require.Equal(t, want, goString(*(**byte)(unsafe.Pointer(&value))))
	}
}
