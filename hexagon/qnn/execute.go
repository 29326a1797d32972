package qnn

import (
	"fmt"
	"runtime"
	"unsafe"
)

// ExecTensor binds memory to one input or output of a graph.
type ExecTensor struct {
	// ID is the number of the tensor, which [Graph.CreateTensor] has set. Tensors of a
	// loaded image keep their IDs, so a caller must store the IDs with the image.
	ID uint32
	// Data is the memory of the input or output, allocated by Go or by the library. The
	// size of Data must be the size that the graph declares for the tensor. For an
	// output, the memory in Data must be writable.
	Data []byte
	// If the tensor is in shared memory, Memory is used instead of Data.
	Memory *Memory
}

// Binding is a graph with memory bound to its inputs and outputs. A Binding may be
// executed any number of times and keeps the bound memory alive.
type Binding struct {
	graph           *Graph
	inputs, outputs boundTensors
	// args holds the arguments of the C function graphExecute; they are kept here so
	// that Execute does not allocate
	args [7]uintptr
}

// boundTensors holds the C structs of inputs or outputs, and the memory to which they point with
// plain numbers.
type boundTensors struct {
	kind    TensorKind
	tensors []cTensor
	memory  [][]byte
}

func newBoundTensors(kind TensorKind, n int) boundTensors {
	return boundTensors{kind: kind, tensors: make([]cTensor, n), memory: make([][]byte, n)}
}

// Bind binds memory to all inputs and all outputs of the graph, in the order in which
// they were created. The size of each memory that Bind gets must be the size that the
// graph declares.
func (g *Graph) Bind(inputs, outputs []ExecTensor) (*Binding, error) {
	if _, err := g.live(); err != nil {
		return nil, err
	}
	b := &Binding{graph: g, inputs: newBoundTensors(AppWrite, len(inputs)), outputs: newBoundTensors(AppRead, len(outputs))}
	if err := b.bindAll(&b.inputs, inputs); err != nil {
		return nil, err
	}
	if err := b.bindAll(&b.outputs, outputs); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Binding) bindAll(to *boundTensors, tensors []ExecTensor) error {
	if err := b.graph.ports.complete(tensors, to.kind); err != nil {
		return fmt.Errorf("qnn: bind graph %s: %w", b.graph.name, err)
	}
	for i, t := range tensors {
		if err := b.bind(to, i, t); err != nil {
			return err
		}
	}
	return nil
}

// bind binds memory to the graph's input or output number i. If the library rejects the
// new memory, the tensor keeps its old memory.
func (b *Binding) bind(to *boundTensors, i int, t ExecTensor) error {
	c := cTensor{
		version: 1, id: t.ID, kind: uint32(to.kind),
		quantize: cQuantizeParams{definition: undefined, encoding: undefined},
	}
	size, err := b.graph.ports.size(t.ID, to.kind)
	if err == nil && t.Memory != nil {
		err = c.setMemory(t, size)
	} else if err == nil {
		err = c.setData(t.Data, size)
	}
	if err != nil {
		return fmt.Errorf("qnn: bind graph %s: %v %d (ID %d): %w", b.graph.name, to.kind, i, t.ID, err)
	}
	to.tensors[i], to.memory[i] = c, t.Data
	return nil
}

// setMemory sets the handle of registered memory for a tensor, which takes the place of
// a buffer's address.
func (c *cTensor) setMemory(t ExecTensor, size uint32) error {
	id, err := t.Memory.handle.live("memory")
	if err != nil {
		return err
	}
	if t.Memory.size != size || t.Data != nil {
		return fmt.Errorf("the registered memory has %d bytes, want %d and no Data: %w", t.Memory.size, size, ErrSize)
	}
	c.memType, c.buffer = memoryHandle, cClientBuffer{data: id}
	return nil
}

// setData sets the address of a tensor's buffer. The caller of setData keeps the buffer
// alive.
func (c *cTensor) setData(data []byte, size uint32) error {
	if uint64(len(data)) != uint64(size) {
		return fmt.Errorf("the buffer has %d bytes, want %d: %w", len(data), size, ErrSize)
	}
	c.buffer = cClientBuffer{data: uintptr(unsafe.Pointer(unsafe.SliceData(data))), size: size}
	return nil
}

// memoryHandle is the value of Qnn_TensorMemType_t for registered memory.
const memoryHandle = 1

// SetInput binds other memory to the graph's input i.
func (b *Binding) SetInput(i int, t ExecTensor) error { return b.rebind(&b.inputs, i, t) }

// SetOutput binds other memory to the graph's output i.
func (b *Binding) SetOutput(i int, t ExecTensor) error { return b.rebind(&b.outputs, i, t) }

// rebind binds other memory to one input or output.
func (b *Binding) rebind(to *boundTensors, i int, t ExecTensor) error {
	if i < 0 || i >= len(to.tensors) || t.ID != to.tensors[i].id {
		return fmt.Errorf("qnn: bind graph %s: it has no %v %d with ID %d: %w", b.graph.name, to.kind, i, t.ID, ErrGraphTensor)
	}
	return b.bind(to, i, t)
}

// Execute runs the graph once and returns when its outputs are written. The profile
// that Execute gets may be nil. A running execute cannot be interrupted.
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
		id, uintptr(unsafe.Pointer(unsafe.SliceData(b.inputs.tensors))), uintptr(len(b.inputs.tensors)),
		// the signal handle 0 means that no signal is used
		uintptr(unsafe.Pointer(unsafe.SliceData(b.outputs.tensors))), uintptr(len(b.outputs.tensors)), profile, 0,
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

// Execute binds memory and runs the graph once. To run a graph often, keep a
// [Binding] instead.
func (g *Graph) Execute(inputs, outputs []ExecTensor) error {
	b, err := g.Bind(inputs, outputs)
	if err != nil {
		return err
	}
	return b.Execute(nil)
}
