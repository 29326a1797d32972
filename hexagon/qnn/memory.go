package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// MemoryKind is the type of memory of a file descriptor.
type MemoryKind uint32

// The kinds of memory.
const (
	// IONMemory is one buffer per tensor, from rpcmem or the kernel's ION.
	IONMemory MemoryKind = 1
	// SharedBuffer is a part of a buffer that several tensors use.
	SharedBuffer MemoryKind = 2
	// DMABuffer is one buffer per tensor, from the kernel's dma-buf.
	DMABuffer MemoryKind = 3
)

// sharedBufferType is QnnMemHtp_Descriptor_t's value for a shared buffer.
const sharedBufferType = 1

// MemoryOptions describes memory to register.
type MemoryOptions struct {
	Kind MemoryKind
	// FD is the file descriptor of the memory. The library maps it. The caller closes
	// it after [Memory.Close].
	FD int
	// Type and Dims describe the tensor that uses the memory.
	Type DataType
	Dims []uint32
	// Offset is the tensor's start in a SharedBuffer of SizeBytes.
	Offset, SizeBytes uint64
}

// Memory is shared memory that is registered with a context. Its graphs may use it in
// place of a buffer. Close it before the context.
type Memory struct {
	handle handle
	size   uint32
}

// RegisterMemory registers shared memory with the context. The vendor's x86-64 library
// has no shared memory.
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
			return nil, fmt.Errorf("qnn: register memory: %d bytes at offset %d do not fit a shared buffer of %d: %w", size, o.Offset, o.SizeBytes, ErrSize)
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

// Close ends the registration. The memory itself stays.
func (m *Memory) Close() error {
	id := m.handle.id.Swap(0)
	if id == 0 {
		return nil
	}
	return m.handle.library.call(fnMemDeRegister, uintptr(unsafe.Pointer(&[]uintptr{id}[0])), 1)
}
