package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// MemoryKind says what stands behind a file descriptor of shared memory.
type MemoryKind uint32

// The kinds of memory.
const (
	// IONMemory is a buffer per tensor, of rpcmem or of the kernel's ION.
	IONMemory MemoryKind = 1
	// SharedBuffer is a part of one buffer that many tensors share.
	SharedBuffer MemoryKind = 2
	// DMABuffer is a buffer per tensor, of the kernel's dma-buf.
	DMABuffer MemoryKind = 3
)

// sharedBufferType is QnnMemHtp_Descriptor_t's shared buffer.
const sharedBufferType = 1

// MemoryOptions describes memory to register.
type MemoryOptions struct {
	Kind MemoryKind
	// FD is the open file of the memory; the library maps it, and the caller
	// closes it after [Memory.Close].
	FD int
	// Type and Dims are those of the tensor that will live in the memory.
	Type DataType
	Dims []uint32
	// Offset is where the tensor begins in a SharedBuffer of SizeBytes in all.
	Offset, SizeBytes uint64
}

// Memory is shared memory that graphs of one context may use in place of a
// buffer. It must be closed before its context is.
type Memory struct {
	handle handle
	size   uint32
}

// RegisterMemory makes shared memory known to the context. The vendor's x86-64
// library has no shared memory.
func (c *Context) RegisterMemory(o MemoryOptions) (*Memory, error) {
	context, err := c.handle.live("context")
	if err != nil {
		return nil, err
	}
	size, err := (&Tensor{Name: "memory", Type: o.Type, Dims: o.Dims}).SizeBytes()
	if err != nil {
		return nil, err
	}
	var k keeper
	descriptor := &cMemDescriptor{
		rank: uint32(len(o.Dims)), dims: unsafe.SliceData(clone(o.Dims)), dataType: uint32(o.Type), memType: uint32(o.Kind), fd: uint64(uint32(o.FD)),
	}
	if o.Kind == SharedBuffer {
		if o.SizeBytes < uint64(size) || o.Offset > o.SizeBytes-uint64(size) {
			return nil, fmt.Errorf("qnn: %d bytes at %d of a shared buffer of %d: %w", size, o.Offset, o.SizeBytes, ErrSize)
		}
		descriptor.fd = uint64(keep(&k, []cSharedBuffer{{kind: sharedBufferType, size: o.SizeBytes, fd: int32(o.FD), offset: o.Offset}}))
	}
	defer runtime.KeepAlive(&k)
	id := new(uintptr)
	if err := c.handle.library.call(fnMemRegister, context, uintptr(unsafe.Pointer(descriptor)), 1, uintptr(unsafe.Pointer(id))); err != nil {
		return nil, err
	}
	m := &Memory{size: size}
	m.handle.library = c.handle.library
	m.handle.id.Store(*id)
	return m, nil
}

// Close takes the memory from the context.
func (m *Memory) Close() error {
	id := m.handle.id.Swap(0)
	if id == 0 {
		return nil
	}
	return m.handle.library.call(fnMemDeRegister, uintptr(unsafe.Pointer(&[]uintptr{id}[0])), 1)
}
