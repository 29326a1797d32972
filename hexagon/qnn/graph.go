package qnn

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Options of QnnGraph_Config_t and QnnHtpGraph_CustomConfig_t.
const (
	graphPriority     = 3
	htpOptimization   = 1
	htpPrecision      = 2
	htpVTCMMegabytes  = 3
	htpHVXThreads     = 6
	htpFinalizeConfig = 7
	htpCores          = 8
	htpVTCMBytes      = 10

	finalizeLevel = 3 // a kind of htpOptimization
)

// GraphOptions tunes a [Graph]. Zero fields leave the choice to the library.
type GraphOptions struct {
	// Priority orders graphs.
	Priority Priority
	// Optimization is the effort of finalize, 1 to 3.
	Optimization int
	// VTCMMegabytes is the fast memory that the graph may use.
	VTCMMegabytes uint32
	// VTCMBytes is the same in bytes; give one of the two.
	VTCMBytes uint32
	// HVXThreads is the number of vector threads that the graph may use.
	HVXThreads uint32
	// Half asks for float16 arithmetic where tensors are float32. The vendor's
	// library computes so anyway on chips that can.
	Half bool
	// Cores is the number of NPU cores that share the graph.
	Cores uint32
	// Finalize are options of the vendor's compiler, which ignores names and
	// types that it does not know.
	Finalize []FinalizeOption
}

// FinalizeOption is a named option of the vendor's compiler.
type FinalizeOption struct {
	Key string
	// Value is a number; Text takes its place where it is not empty.
	Value Scalar
	Text  string
}

// stringType is the type of a scalar that is a C string.
const stringType DataType = 0x0608

func (o *GraphOptions) encode(c *configs) error {
	if o.Priority != DefaultPriority {
		c.add(graphPriority, uint64(o.Priority))
	}
	if o.Optimization != 0 {
		level := uint64(math.Float32bits(float32(o.Optimization)))
		c.addCustom(cCustomConfig{option: htpOptimization, value: [7]uint64{finalizeLevel | level<<32}})
	}
	if o.VTCMMegabytes != 0 {
		c.addCustom(cCustomConfig{option: htpVTCMMegabytes, value: [7]uint64{uint64(o.VTCMMegabytes)}})
	}
	if o.HVXThreads != 0 {
		c.addCustom(cCustomConfig{option: htpHVXThreads, value: [7]uint64{uint64(o.HVXThreads)}})
	}
	if o.VTCMBytes != 0 {
		c.addCustom(cCustomConfig{option: htpVTCMBytes, value: [7]uint64{uint64(o.VTCMBytes)}})
	}
	if o.Half {
		c.addCustom(cCustomConfig{option: htpPrecision, value: [7]uint64{1}})
	}
	if o.Cores != 0 {
		c.addCustom(cCustomConfig{option: htpCores, value: [7]uint64{uint64(o.Cores)}})
	}
	for _, f := range o.Finalize {
		key, err := cString(f.Key)
		if err != nil {
			return fmt.Errorf("qnn: finalize option %w", err)
		}
		kind, bits := f.Value.kind, f.Value.bits
		if f.Text != "" {
			text, err := cString(f.Text)
			if err != nil {
				return fmt.Errorf("qnn: finalize option %s: %w", f.Key, err)
			}
			kind, bits = stringType, c.keepString(text)
		}
		c.addCustom(cCustomConfig{option: htpFinalizeConfig, value: [7]uint64{c.keepString(key), uint64(kind), bits}})
	}
	return nil
}

// Graph is a static graph. It lives as long as its context.
type Graph struct {
	context *Context
	id      uintptr
	name    string
	// kept is memory that the library uses until the graph is finalized
	// ([Quantization.borrowed]).
	kept []keeper
}

// NewGraph starts a graph. Names are unique within the context.
func (c *Context) NewGraph(name string, o GraphOptions) (*Graph, error) {
	var options configs
	if err := o.encode(&options); err != nil {
		return nil, err
	}
	defer options.done()
	return c.openGraph(name, func(context uintptr, name *byte, id *uintptr) error {
		return c.handle.library.call(fnGraphCreate, context, uintptr(unsafe.Pointer(name)),
			uintptr(options.pointer()), uintptr(unsafe.Pointer(id)))
	})
}

// Graph finds a graph of a loaded context by its name.
func (c *Context) Graph(name string) (*Graph, error) {
	return c.openGraph(name, func(context uintptr, name *byte, id *uintptr) error {
		return c.handle.library.call(fnGraphRetrieve, context, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(id)))
	})
}

func (c *Context) openGraph(name string, open func(context uintptr, name *byte, id *uintptr) error) (*Graph, error) {
	context, err := c.handle.live("context")
	if err != nil {
		return nil, err
	}
	text, err := cString(name)
	if err != nil {
		return nil, fmt.Errorf("qnn: graph %w", err)
	}
	id := new(uintptr)
	if err := open(context, text, id); err != nil {
		return nil, err
	}
	return &Graph{context: c, id: *id, name: name}, nil
}

// Configure changes options of a graph that is not finalized yet, its priority
// also later.
func (g *Graph) Configure(o GraphOptions) error {
	id, err := g.live()
	if err != nil {
		return err
	}
	var options configs
	if err := o.encode(&options); err != nil {
		return err
	}
	defer options.done()
	return g.context.handle.library.call(fnGraphSetConfig, id, uintptr(options.pointer()))
}

// Name returns the graph's name.
func (g *Graph) Name() string { return g.name }

// live returns the graph's number while its context is open.
func (g *Graph) live() (uintptr, error) {
	if _, err := g.context.handle.live("context"); err != nil {
		return 0, fmt.Errorf("graph %s: %w", g.name, err)
	}
	return g.id, nil
}

// CreateTensor creates a tensor in the graph and writes its ID into t. The
// data of a static tensor is checked against its shape and copied.
func (g *Graph) CreateTensor(t *Tensor) error {
	id, err := g.live()
	if err != nil {
		return err
	}
	if t.Kind == Static && t.Data == nil {
		return fmt.Errorf("qnn: static tensor %q has no data: %w", t.Name, ErrSize)
	}
	c := &cTensor{}
	var k keeper
	defer runtime.KeepAlive(&k)
	if err := t.encode(c, &k); err != nil {
		return err
	}
	c.id = 0
	if err := g.context.handle.library.call(fnTensorCreateGraphTensor, id, uintptr(unsafe.Pointer(c))); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	t.ID = c.id
	if t.Quantization.borrowed() {
		g.kept = append(g.kept, k)
	}
	return nil
}

// AddNode appends a node. Its tensors were created in this graph, and its
// inputs are written by nodes added before.
func (g *Graph) AddNode(op *Op) error {
	id, err := g.live()
	if err != nil {
		return err
	}
	c, err := op.encode()
	if err != nil {
		return err
	}
	return g.context.handle.library.callByValue(fnGraphAddNode, id, c)
}

// Finalize compiles the graph. The profile may be nil. On the vendor's x86-64
// library it waits for a run of any other graph.
func (g *Graph) Finalize(p *Profile) error {
	id, err := g.live()
	if err != nil {
		return err
	}
	profile, err := p.optional()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(p)
	defer func() {
		runtime.KeepAlive(g.kept)
		g.kept = nil
	}()
	library := g.context.handle.library
	if library.has(quirkTalksAtFinalize) {
		return library.quietly(fnGraphFinalize, id, profile, 0)
	}
	return library.call(fnGraphFinalize, id, profile, 0)
}
