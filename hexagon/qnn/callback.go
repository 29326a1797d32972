package qnn

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// What C calls back gets a number of ours, by which the waiting side is found:
// C keeps no Go pointer, and the few callbacks are made once per process,
// because they can never be freed.

// waiting holds who is to be called, by number.
var (
	waiting     sync.Map // uintptr → waiter
	waitingNext atomic.Uintptr
)

// waiter is told of what it waits for, from any thread.
type waiter interface {
	// notified takes the end of a run or the state of a load.
	notified(kind uint32, object uintptr, err uintptr)
}

// await gives a waiter its number; forget takes it back.
func await(w waiter) uintptr {
	id := waitingNext.Add(1)
	waiting.Store(id, w)
	return id
}

func forget(id uintptr) { waiting.Delete(id) }

func waiterOf(id uintptr) waiter {
	if w, ok := waiting.Load(id); ok {
		return w.(waiter)
	}
	return nil // a library that calls after the end
}

// The callbacks, made when first needed.
var (
	// ranCallback is Qnn_NotifyFn_t; its status is a struct of one word, which
	// travels as that word on every platform.
	ranCallback = sync.OnceValue(func() uintptr {
		return newCallback(func(param, status uintptr) uintptr {
			if w := waiterOf(param); w != nil {
				w.notified(0, 0, status)
			}
			return 0
		})
	})
	// loadedCallback is QnnContext_createFromBinaryNotifyFn_t.
	loadedCallback = sync.OnceValue(func() uintptr {
		return newCallback(func(context, _ uintptr, _ *byte, kind uint32, param, status uintptr) uintptr {
			if w := waiterOf(param); w != nil {
				w.notified(kind, context, status)
			}
			return 0
		})
	})
	rawCallback    = sync.OnceValue(func() uintptr { return newRequestCallback(provideRaw) })
	sharedCallback = sync.OnceValue(func() uintptr { return newRequestCallback(provideShared) })
	// A raw part is given back in two words, as its struct travels in registers.
	rawDoneCallback    = sync.OnceValue(newRawDoneCallback)
	sharedDoneCallback = sync.OnceValue(func() uintptr {
		if byStack {
			return newCallback(func(param, _, _, _, _, _, _, data, _ uintptr) uintptr { return released(param, data) })
		}
		return newCallback(func(part *cSharedMemory, param uintptr) uintptr { return released(param, part.data) })
	})
)

// byStack: structs of more than two words lie on the stack, behind what six
// registers hold; all other platforms pass the address of a copy.
const byStack = runtime.GOARCH == "amd64" && runtime.GOOS != "windows"

func newRequestCallback(provide func(request cDataRequest, response unsafe.Pointer, param uintptr) uintptr) uintptr {
	if byStack {
		return newCallback(func(response unsafe.Pointer, param, _, _, _, _, offset, size, _ uintptr) uintptr {
			return provide(cDataRequest{offset: uint64(offset), size: uint64(size)}, response, param)
		})
	}
	return newCallback(func(request *cDataRequest, response unsafe.Pointer, param uintptr) uintptr {
		return provide(*request, response, param)
	})
}

func newRawDoneCallback() uintptr {
	if runtime.GOOS == "windows" && runtime.GOARCH == "amd64" { // two words are too large for a register
		return newCallback(func(part *[2]uintptr, param uintptr) uintptr { return released(param, part[0]) })
	}
	return newCallback(func(data, _, param uintptr) uintptr { return released(param, data) })
}
