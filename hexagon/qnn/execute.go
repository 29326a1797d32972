package qnn

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// ExecTensor binds memory to an input or output of a graph for a run.
type ExecTensor struct {
	// ID is the number that [Graph.CreateTensor] gave. It is the same in an
	// image loaded again, so whoever stores images stores the IDs too.
	ID uint32
	// SizeBytes is the tensor's size in the graph. The library reads and writes
	// this many bytes whatever it is given, so it is compared with Data.
	SizeBytes uint32
	// Data is the memory, Go's or the library's. It must be writable for an
	// output.
	Data []byte
	// Memory takes the place of Data where the tensor lives in shared memory.
	Memory *Memory
}

// Binding is a graph with its inputs and outputs bound to memory, ready to be
// run again and again. It keeps the bound memory alive.
type Binding struct {
	graph   *Graph
	inputs  []cTensor
	outputs []cTensor
	args    [7]uintptr // of graphExecute, kept so that a run allocates no list of them
}

// Bind prepares a run. The inputs and outputs are all those of the graph, in
// the order they were created.
func (g *Graph) Bind(inputs, outputs []ExecTensor) (*Binding, error) {
	if _, err := g.live(); err != nil {
		return nil, err
	}
	b := &Binding{graph: g, inputs: make([]cTensor, len(inputs)), outputs: make([]cTensor, len(outputs))}
	for i, t := range inputs {
		if err := b.bind(b.inputs, i, t, AppWrite); err != nil {
			return nil, err
		}
	}
	for i, t := range outputs {
		if err := b.bind(b.outputs, i, t, AppRead); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *Binding) bind(to []cTensor, i int, t ExecTensor, kind TensorKind) error {
	if t.ID == 0 {
		return fmt.Errorf("qnn: graph %s: %v %d has no ID: %w", b.graph.name, kind, i, ErrGraphTensor)
	}
	to[i] = cTensor{
		version: 1, id: t.ID, kind: uint32(kind),
		quantize: cQuantizeParams{definition: undefined, encoding: undefined},
		buffer:   cClientBuffer{size: t.SizeBytes},
	}
	if t.Memory != nil {
		return b.setMemory(&to[i], t)
	}
	return b.set(to, i, t.Data, kind)
}

// setMemory binds a handle, which lies where the address of a buffer would and
// must not be taken for one: it is written as a number.
func (b *Binding) setMemory(to *cTensor, t ExecTensor) error {
	id, err := t.Memory.handle.live("memory")
	if err != nil {
		return err
	}
	if t.Memory.size != t.SizeBytes || t.Data != nil {
		return fmt.Errorf("qnn: graph %s: id %d wants %d bytes, the memory has %d: %w", b.graph.name, t.ID, t.SizeBytes, t.Memory.size, ErrSize)
	}
	to.memType, to.buffer.size = memoryHandle, 0
	*(*uintptr)(unsafe.Pointer(&to.buffer.data)) = id
	return nil
}

// memoryHandle is Qnn_TensorMemType_t for registered memory.
const memoryHandle = 1

// set binds a buffer.
func (b *Binding) set(to []cTensor, i int, data []byte, kind TensorKind) error {
	buffer := &to[i].buffer
	if len(data) == 0 || uint64(len(data)) > math.MaxUint32 || uint32(len(data)) != buffer.size {
		return fmt.Errorf("qnn: graph %s: %v %d (id %d) has %d bytes, the graph wants %d: %w",
			b.graph.name, kind, i, to[i].id, len(data), buffer.size, ErrSize)
	}
	buffer.data = unsafe.Pointer(unsafe.SliceData(data))
	return nil
}

// SetInput binds other memory to input i.
func (b *Binding) SetInput(i int, t ExecTensor) error { return b.rebind(b.inputs, i, t, AppWrite) }

// SetOutput binds other memory to output i.
func (b *Binding) SetOutput(i int, t ExecTensor) error { return b.rebind(b.outputs, i, t, AppRead) }

// rebind leaves a tensor as it was where the new memory is refused.
func (b *Binding) rebind(to []cTensor, i int, t ExecTensor, kind TensorKind) error {
	if i < 0 || i >= len(to) || t.ID != to[i].id {
		return fmt.Errorf("qnn: graph %s has no %v %d of id %d: %w", b.graph.name, kind, i, t.ID, ErrGraphTensor)
	}
	was := to[i]
	err := b.bind(to, i, t, kind)
	if err != nil {
		to[i] = was
	}
	return err
}

// Execute runs the graph once and returns when its outputs are written. The
// profile may be nil. It cannot be interrupted.
func (b *Binding) Execute(p *Profile) error { return b.ExecuteWith(p, nil) }

// handles are those of the graph, the signal and the profile that a run names;
// the last two are 0 where there is none.
func (b *Binding) handles(p *Profile, s *Signal) (graph, signal, profile uintptr, err error) {
	if graph, err = b.graph.live(); err != nil {
		return 0, 0, 0, err
	}
	if s != nil {
		if signal, err = s.handle.live("signal"); err != nil {
			return 0, 0, 0, err
		}
	}
	profile, err = p.optional()
	return graph, signal, profile, err
}

// ExecuteWith is Execute with a signal that can end it; both may be nil.
func (b *Binding) ExecuteWith(p *Profile, s *Signal) error {
	id, signal, profile, err := b.handles(p, s)
	if err != nil {
		return err
	}
	b.args = [...]uintptr{
		id, uintptr(unsafe.Pointer(unsafe.SliceData(b.inputs))), uintptr(len(b.inputs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(b.outputs))), uintptr(len(b.outputs)), profile, signal,
	}
	library := b.graph.context.handle.library
	if library.has(quirkOneRun) {
		library.lane.Lock()
		defer library.lane.Unlock()
	}
	err = library.call(fnGraphExecute, b.args[:]...)
	runtime.KeepAlive(b)
	runtime.KeepAlive(p)
	return err
}

// Execute binds and runs the graph once. Whoever runs it often keeps the
// [Binding].
func (g *Graph) Execute(inputs, outputs []ExecTensor) error {
	b, err := g.Bind(inputs, outputs)
	if err != nil {
		return err
	}
	return b.Execute(nil)
}
