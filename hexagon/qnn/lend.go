package qnn

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Part is memory that holds a stretch of an image.
type Part struct {
	// Data are the bytes; the library may read them until the part is given back.
	Data []byte
	// FD is the file descriptor of shared memory that begins with Data; for
	// [Lender].Shared only.
	FD int
}

// Lender hands an image to the library piece by piece, so that it need never
// lie in memory as a whole. Its functions are called from any thread during
// [Backend.LoadContextFrom] and until the context is closed, and must not call
// this package.
type Lender struct {
	// Shared offers memory that the device reads itself (DMA buffers).
	Shared bool
	// Provide returns memory with the bytes of the image from offset on.
	Provide func(offset, size uint64) (Part, error)
	// Release takes a part back; nil does nothing.
	Release func(Part)
}

// Kinds of Qnn_ContextBinaryCallback_t.
const (
	callbackRaw    = 1
	callbackShared = 2
)

// LoadContextFrom is [Backend.LoadContext] with an image of which the library
// asks parts from a lender. image is the whole of it, mapped for example,
// which the library reads what it does not ask for from.
func (b *Backend) LoadContextFrom(d *Device, image []byte, lender Lender, o ContextOptions, p *Profile) (*Context, error) {
	profile, err := p.optional()
	if err != nil {
		return nil, err
	}
	parts := &lending{lender: lender, lent: map[uintptr]Part{}, size: uint64(len(image))}
	parts.number = await(parts)
	callback := &cImageCallback{
		kind: callbackRaw, version: 1, provide: rawCallback(), release: rawDoneCallback(), param: parts.number,
	}
	if lender.Shared {
		callback.kind, callback.provide, callback.release = callbackShared, sharedCallback(), sharedDoneCallback()
	}
	defer runtime.KeepAlive(callback)
	defer runtime.KeepAlive(image)
	context, err := b.newContext(d, o, func(backend, device uintptr, config unsafe.Pointer, id *uintptr) error {
		return b.handle.library.call(fnContextCreateFromBinaryWithCallback, backend, device, uintptr(config),
			uintptr(unsafe.Pointer(callback)), uintptr(unsafe.Pointer(unsafe.SliceData(image))), uintptr(len(image)),
			uintptr(unsafe.Pointer(id)), profile, 0)
	})
	if err != nil {
		if reason := parts.end(); reason != nil {
			err = fmt.Errorf("%w: %w", err, reason)
		}
		return nil, err
	}
	context.lent = parts
	if o.Persistent {
		context.image = image
	}
	return context, nil
}

// lending keeps the parts that the library has.
type lending struct {
	number  uintptr
	lender  Lender
	size    uint64 // of the image, in bytes
	mu      sync.Mutex
	lent    map[uintptr]Part // by their address
	failure error
}

func (l *lending) notified(uint32, uintptr, uintptr) {}

// provide answers a request, 0 when it cannot.
func (l *lending) provide(request cDataRequest) (Part, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if request.size == 0 || request.offset > l.size || request.size > l.size-request.offset {
		l.failure = fmt.Errorf("qnn: %d bytes from %d on were asked for, of %d: %w", request.size, request.offset, l.size, ErrSize)
		return Part{}, false
	}
	part, err := l.lender.Provide(request.offset, request.size)
	if err == nil && uint64(len(part.Data)) < request.size {
		err = fmt.Errorf("%d bytes provided for %d: %w", len(part.Data), request.size, ErrSize)
	}
	if err != nil {
		l.failure = fmt.Errorf("qnn: image from %d on: %w", request.offset, err)
		return Part{}, false
	}
	l.lent[uintptr(unsafe.Pointer(unsafe.SliceData(part.Data)))] = part
	return part, true
}

// release takes one part back.
func (l *lending) release(data uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, ok := l.lent[data]
	delete(l.lent, data)
	if ok && l.lender.Release != nil {
		l.lender.Release(part)
	}
}

// end takes back what the library kept, and tells why a part was not provided.
func (l *lending) end() error {
	if l == nil {
		return nil
	}
	forget(l.number)
	l.mu.Lock()
	defer l.mu.Unlock()
	for data, part := range l.lent {
		delete(l.lent, data)
		if l.lender.Release != nil {
			l.lender.Release(part)
		}
	}
	return l.failure
}

// The C side of it. notProvided is QNN_CONTEXT_ERROR_MEM_ALLOC.
const notProvided = uintptr(codeNoMemory)

func provideRaw(request cDataRequest, response unsafe.Pointer, param uintptr) uintptr {
	l, ok := waiterOf(param).(*lending)
	if !ok {
		return notProvided
	}
	part, ok := l.provide(request)
	if !ok {
		return notProvided
	}
	*(*cRawResponse)(response) = cRawResponse{data: uintptr(unsafe.Pointer(unsafe.SliceData(part.Data))), aligned: uint64(len(part.Data))}
	return 0
}

func provideShared(request cDataRequest, response unsafe.Pointer, param uintptr) uintptr {
	l, ok := waiterOf(param).(*lending)
	if !ok {
		return notProvided
	}
	part, ok := l.provide(request)
	if !ok {
		return notProvided
	}
	*(*cSharedResponse)(response) = cSharedResponse{
		fd: int32(part.FD), data: uintptr(unsafe.Pointer(unsafe.SliceData(part.Data))), aligned: uint64(len(part.Data)),
	}
	return 0
}

func released(param, data uintptr) uintptr {
	if l, ok := waiterOf(param).(*lending); ok {
		l.release(data)
	}
	return 0
}
