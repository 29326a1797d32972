package qnn

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// ExecTensor binds memory to an input or output of a graph.
type ExecTensor struct {
	// ID is the tensor's ID from [Graph.CreateTensor]. A loaded image has the same IDs,
	// so store them with the image.
	ID uint32
	// SizeBytes is the tensor's size in the graph. It must equal the size of Data: the
	// library reads and writes this many bytes and does not check the buffer.
	SizeBytes uint32
	// Data is the memory, allocated by Go or by the library. For an output it must be
	// writable.
	Data []byte
	// Memory replaces Data if the tensor is in shared memory.
	Memory *Memory
}

// Binding is a graph with memory bound to its inputs and outputs. It may be executed
// any number of times and keeps the bound memory alive.
type Binding struct {
	graph   *Graph
	inputs  []cTensor
	outputs []cTensor
	args    [7]uintptr // of graphExecute; kept here so that Execute does not allocate
}

// Bind binds memory to all inputs and all outputs of the graph, in the order in which
// they were created.
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
		return fmt.Errorf("qnn: bind graph %s: %v %d has no ID: %w", b.graph.name, kind, i, ErrGraphTensor)
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

// setMemory binds a memory handle. The handle is in the place of a buffer's address,
// so it is written as a number that the garbage collector does not follow.
func (b *Binding) setMemory(to *cTensor, t ExecTensor) error {
	id, err := t.Memory.handle.live("memory")
	if err != nil {
		return err
	}
	if t.Memory.size != t.SizeBytes || t.Data != nil {
		return fmt.Errorf("qnn: bind graph %s: ID %d: registered memory has %d bytes, want %d and no Data: %w", b.graph.name, t.ID, t.Memory.size, t.SizeBytes, ErrSize)
	}
	to.memType, to.buffer.size = memoryHandle, 0
	*(*uintptr)(unsafe.Pointer(&to.buffer.data)) = id
	return nil
}

// memoryHandle is Qnn_TensorMemType_t's value for registered memory.
const memoryHandle = 1

// set binds a buffer.
func (b *Binding) set(to []cTensor, i int, data []byte, kind TensorKind) error {
	buffer := &to[i].buffer
	if len(data) == 0 || uint64(len(data)) > math.MaxUint32 || uint32(len(data)) != buffer.size {
		return fmt.Errorf("qnn: bind graph %s: %v %d (ID %d) has %d bytes, want %d: %w",
			b.graph.name, kind, i, to[i].id, len(data), buffer.size, ErrSize)
	}
	buffer.data = unsafe.Pointer(unsafe.SliceData(data))
	return nil
}

// SetInput binds other memory to input i.
func (b *Binding) SetInput(i int, t ExecTensor) error { return b.rebind(b.inputs, i, t, AppWrite) }

// SetOutput binds other memory to output i.
func (b *Binding) SetOutput(i int, t ExecTensor) error { return b.rebind(b.outputs, i, t, AppRead) }

// rebind binds other memory to a tensor. If the memory is rejected, the tensor keeps
// its old memory.
func (b *Binding) rebind(to []cTensor, i int, t ExecTensor, kind TensorKind) error {
	if i < 0 || i >= len(to) || t.ID != to[i].id {
		return fmt.Errorf("qnn: bind graph %s: it has no %v %d with ID %d: %w", b.graph.name, kind, i, t.ID, ErrGraphTensor)
	}
	was := to[i]
	err := b.bind(to, i, t, kind)
	if err != nil {
		to[i] = was
	}
	return err
}

// Execute runs the graph once and returns when its outputs are written. The profile
// may be nil. The call cannot be interrupted.
func (b *Binding) Execute(p *Profile) error {
	id, err := b.graph.live()
	if err != nil {
		return err
	}
	profile, err := p.optional()
	if err != nil {
		return err
	}
	b.args = [...]uintptr{
		id, uintptr(unsafe.Pointer(unsafe.SliceData(b.inputs))), uintptr(len(b.inputs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(b.outputs))), uintptr(len(b.outputs)), profile, 0, // no signal
	}
	library := b.graph.context.handle.library
	if library.has(quirkOneExecute) {
		library.executeMu.Lock()
		defer library.executeMu.Unlock()
	}
	err = library.call(fnGraphExecute, b.args[:]...)
	runtime.KeepAlive(b)
	runtime.KeepAlive(p)
	return err
}

// Execute binds memory and runs the graph once. To run it often, keep a [Binding].
func (g *Graph) Execute(inputs, outputs []ExecTensor) error {
	b, err := g.Bind(inputs, outputs)
	if err != nil {
		return err
	}
	return b.Execute(nil)
}
