//go:build windows && (amd64 || arm64)

package qnn

import (
	"syscall"

	"github.com/ebitengine/purego"
)

func loadLibrary(path string) (uintptr, error) {
	handle, err := syscall.LoadLibrary(path)
	return uintptr(handle), err
}

func unloadLibrary(handle uintptr) error { return syscall.FreeLibrary(syscall.Handle(handle)) }

func findSymbol(handle uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(handle), name)
}

// invoke calls a C function and returns its result.
//
//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// newCallback returns a C function that calls cb, which takes numbers and pointers and
// returns a uintptr. It can never be freed.
func newCallback(cb any) uintptr {
	return purego.NewCallback(cb)
}

// vsnprintf returns 0: Windows has several C runtimes, and a va_list belongs to the
// runtime that the library was built with.
func vsnprintf() uintptr { return 0 }
