package qnn

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Sharing allocates memory that a library can map, too, by its file descriptor:
// on phones FastRPC's, elsewhere on Linux anonymous files, which the emulator
// maps and no DSP does.
type Sharing struct {
	library  uintptr // FastRPC's; 0 for files
	allocate func(size int) (*SharedMemory, error)
}

// SharedMemory is zeroed memory with a file descriptor, beginning on a page.
type SharedMemory struct {
	bytes []byte
	fd    int
	free  func() error
}

// Bytes is the memory, valid until Close.
func (m *SharedMemory) Bytes() []byte { return m.bytes }

// FD is what [MemoryOptions] want.
func (m *SharedMemory) FD() int { return m.fd }

// Close gives the memory back; what it is registered as must be closed before.
func (m *SharedMemory) Close() error {
	if m.free == nil {
		return nil
	}
	free := m.free
	m.bytes, m.free = nil, nil
	return free()
}

// OpenSharing takes the memory of a FastRPC library, libcdsprpc.so on phones, or
// without one anonymous files. Where there is neither it is
// [errors.ErrUnsupported].
func OpenSharing(fastRPC string) (*Sharing, error) {
	library, err := loadLibrary(fastRPC)
	if err != nil {
		return openFiles()
	}
	var calls rpcMemory
	for name, to := range map[string]*uintptr{"rpcmem_alloc": &calls.alloc, "rpcmem_free": &calls.free, "rpcmem_to_fd": &calls.toFD} {
		if *to, err = findSymbol(library, name); err != nil {
			return nil, errors.Join(fmt.Errorf("qnn: %s: no %s: %w", fastRPC, name, errors.ErrUnsupported), unloadLibrary(library))
		}
	}
	return &Sharing{library: library, allocate: calls.allocate}, nil
}

// Allocate returns memory of so many bytes.
func (s *Sharing) Allocate(size int) (*SharedMemory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("qnn: %d bytes of shared memory: %w", size, ErrSize)
	}
	return s.allocate(size)
}

// Close lets go of the library, after the memory that it gave.
func (s *Sharing) Close() error {
	if s.library == 0 {
		return nil
	}
	library := s.library
	s.library = 0
	return unloadLibrary(library)
}

// rpcMemory are FastRPC's functions: void *rpcmem_alloc(int heap, uint32_t flags,
// int size), void rpcmem_free(void *), int rpcmem_to_fd(void *).
type rpcMemory struct{ alloc, free, toFD uintptr }

// The heap of the system and the flags that every example takes.
const (
	rpcHeap  = 25
	rpcFlags = 1
)

func (r rpcMemory) allocate(size int) (*SharedMemory, error) {
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("qnn: rpcmem_alloc: %d bytes do not fit an int: %w", size, ErrNoMemory)
	}
	at := invoke(r.alloc, rpcHeap, rpcFlags, uintptr(size))
	if at == 0 {
		return nil, fmt.Errorf("qnn: rpcmem_alloc of %d bytes: %w", size, ErrNoMemory)
	}
	free := func() error {
		invoke(r.free, at)
		return nil
	}
	fd := int32(invoke(r.toFD, at))
	if fd < 0 {
		return nil, errors.Join(fmt.Errorf("qnn: rpcmem_to_fd: %d", fd), free())
	}
	bytes := unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size) // C's memory, which no collector moves
	clear(bytes)
	return &SharedMemory{bytes: bytes, fd: int(fd), free: free}, nil
}
