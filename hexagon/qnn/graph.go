package qnn

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Options of QnnGraph_Config_t and QnnHtpGraph_CustomConfig_t.
const (
	graphPriority    = 3
	htpOptimization  = 1
	htpVTCMMegabytes = 3
	htpHVXThreads    = 6

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
	// HVXThreads is the number of vector threads that the graph may use.
	HVXThreads uint32
}

func (o *GraphOptions) encode(c *configs) {
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
}

// Graph is a static graph. It lives as long as its context.
type Graph struct {
	context *Context
	id      uintptr
	name    string
}

// NewGraph starts a graph. Names are unique within the context.
func (c *Context) NewGraph(name string, o GraphOptions) (*Graph, error) {
	var options configs
	o.encode(&options)
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
	library := g.context.handle.library
	if library.provider.Core.Minor < coreMinorQuiet {
		return library.quietly(fnGraphFinalize, id, profile, 0)
	}
	return library.call(fnGraphFinalize, id, profile, 0)
}
