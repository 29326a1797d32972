package hexagon

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// alignment is what the library's vector units like, and the contract's unit of
// offsets.
const alignment = 64

// maxBuffer is what one session of the DSP can address: no device takes more.
const maxBuffer = 1 << 32

// fastRPC is the system's library that shares memory with the DSP.
const fastRPC = "libcdsprpc.so"

// buffer is memory that the library sees: shared where it takes registered
// memory, else ours, which it copies or maps by its own means in each run.
type buffer struct {
	bytes  []byte
	shared *qnn.SharedMemory // nil: ours
}

// openSharing finds the memory that buffers are made of. What the library says
// of itself decides: the vendor's x86-64 library has no memory handles.
func (d *Device) openSharing() {
	if ok, err := d.library.HasCapability(qnn.CapabilityMemHandle); err != nil || !ok {
		d.options.Logger.Debug("the library takes no registered memory: runs are given addresses", "error", err)
		return
	}
	name := d.options.FastRPC
	if name == "" {
		name = fastRPC
	}
	var err error
	if d.sharing, err = qnn.OpenSharing(name); err != nil {
		d.options.Logger.Debug("no memory to share with the library: runs are given addresses", "reason", err)
	}
}

// NewBuffer allocates zeroed memory.
func (d *Device) NewBuffer(sizeBytes int) (backend.Buffer, error) {
	var err error
	switch {
	case d.closed.Load():
		err = backend.ErrClosed
	case sizeBytes <= 0:
		err = errors.New("a positive size is wanted")
	case int64(sizeBytes) > maxBuffer:
		err = fmt.Errorf("%w: a session addresses %d bytes", backend.ErrNoMemory, int64(maxBuffer))
	case d.sharing == nil || d.addresses.Load():
		return &buffer{bytes: aligned(sizeBytes)}, nil
	default:
		var m *qnn.SharedMemory
		if m, err = d.sharing.Allocate(sizeBytes); err == nil {
			return &buffer{bytes: m.Bytes(), shared: m}, nil
		}
		err = callError(err)
	}
	return nil, fmt.Errorf("hexagon: buffer of %d bytes: %w", sizeBytes, err)
}

// aligned returns zeroed memory that begins at a multiple of alignment.
func aligned(size int) []byte {
	raw := make([]byte, size+alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % alignment)
	return raw[skip : skip+size : skip+size]
}

func isAligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment == 0
}

func (b *buffer) Bytes() []byte { return b.bytes }

func (b *buffer) Close() error {
	b.bytes = nil
	if b.shared == nil {
		return nil
	}
	return b.shared.Close()
}

// region is where a port of a graph lies.
type region struct {
	port   int // of inputs and outputs counted through
	buffer *buffer
	offset int
}

// register makes a port's memory known to the context, once; nil means that runs
// are given its address, because it is not shared or the library refuses.
func (p *program) register(g *loadedGraph, port int, b backend.Binding) (*qnn.Memory, error) {
	own, ok := b.Buffer.(*buffer)
	if !ok || own.shared == nil || p.device.addresses.Load() {
		return nil, nil
	}
	at := region{port, own, b.Offset}
	if m := g.memories[at]; m != nil {
		return m, nil
	}
	of := g.port(port)
	m, err := p.context.RegisterMemory(qnn.MemoryOptions{
		Kind: qnn.SharedBuffer, FD: own.shared.FD(), Type: types[of.Type], Dims: dims(of.Shape),
		Offset: uint64(b.Offset), SizeBytes: uint64(len(own.bytes)),
	})
	if err = callError(err); err == nil {
		g.memories[at] = m
		return m, nil
	}
	if errors.Is(err, backend.ErrNoMemory) || errors.Is(err, backend.ErrRestarted) {
		return nil, fmt.Errorf("register %s of %d bytes in a buffer of %d: %w", of.Name, of.SizeBytes(), len(own.bytes), err)
	}
	if !p.device.addresses.Swap(true) {
		p.device.options.Logger.Warn("the library takes no registered memory, whatever it says: runs are given addresses", "reason", err)
	}
	return nil, nil
}

// Bind registers the memory of bindings ahead of the first run with them. It may
// be called beside runs of other programs.
func (p *program) Bind(graph string, bindings []backend.Binding) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.find(graph)
	if err == nil {
		err = g.check(bindings)
	}
	for i := 0; err == nil && i < len(bindings); i++ {
		_, err = p.register(g, i, bindings[i])
	}
	if err != nil {
		return fmt.Errorf("hexagon: bind graph %q: %w", graph, err)
	}
	return nil
}

// deregister takes all memory from the context, which must be alive.
func (p *program) deregister() error {
	var err error
	for _, g := range p.graphs {
		for _, m := range g.memories {
			err = errors.Join(err, m.Close())
		}
		clear(g.memories)
	}
	return err
}
