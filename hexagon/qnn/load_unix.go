//go:build (linux || darwin) && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// loadLibrary stays on one thread: the loader keeps its error texts per thread,
// and from another one the reason would be empty.
func loadLibrary(path string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func unloadLibrary(handle uintptr) error { return purego.Dlclose(handle) }

func findSymbol(handle uintptr, name string) (uintptr, error) {
	runtime.LockOSThread() // see loadLibrary
	defer runtime.UnlockOSThread()
	return purego.Dlsym(handle, name)
}

// invoke calls a C function and returns its first result.
//
//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// newCallback makes a C function of cb, a function of numbers and pointers that
// returns a uintptr; it can never be freed. C's va_list is an address on all
// platforms of this file.
func newCallback(cb any) uintptr {
	return purego.NewCallback(cb)
}

// libc finds a function of the C library that the process is linked with; 0
// when it has none.
func libc(name string) uintptr {
	address, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
	if err != nil {
		return 0
	}
	return address
}

var vsnprintf = sync.OnceValue(func() uintptr { return libc("vsnprintf") })
