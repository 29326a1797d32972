//go:build linux

package qnn

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestVariablesReachTheCLibrary: the driver of the DSP reads its search path
// with C's getenv, and callers set it from Go.
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
