package engine

import (
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// alignment is what the contract asks of a binding's offset.
const alignment = 64

// region is a part of a buffer.
type region struct {
	buffer       backend.Buffer
	offset, size int // in bytes
}

// bytes is the first n bytes of the region.
func (r region) bytes(n int) []byte { return r.buffer.Bytes()[r.offset : r.offset+n : r.offset+n] }

// all is the whole region.
func (r region) all() []byte { return r.bytes(r.size) }

// arena places regions in one buffer: devices register few large buffers
// faster than many small ones.
type arena struct {
	size    int
	regions []*region
}

func (a *arena) place(r *region, size int) {
	r.offset, r.size = a.size, size
	a.size += (size + alignment - 1) &^ (alignment - 1)
	a.regions = append(a.regions, r)
}

func (a *arena) allocate(dev backend.Device) (backend.Buffer, error) {
	b, err := dev.NewBuffer(a.size)
	if err != nil {
		return nil, fmt.Errorf("engine: allocate %d bytes: %w", a.size, err)
	}
	for _, r := range a.regions {
		r.buffer = b
	}
	return b, nil
}

// layerCache is the memory of one layer's keys and values.
type layerCache struct {
	past  [2]region // k and v [KVHeads, slots, HeadDim]
	fresh [2]region // k and v [KVHeads, rows, HeadDim] of the last run
	// gathered is what fresh held of each part of a pass, [KVHeads, widest rows,
	// HeadDim]; no graph binds it. It is nil until a pass runs in parts.
	gathered [2][]byte
}

// viewPorts is the memory of one view's angles and mask.
type viewPorts struct{ cos, sin, mask region }

// memory is everything that graphs bind. The cache of one block is one buffer:
// a block's program may live in another session of the device than the next
// one's, and each maps only what it binds.
type memory struct {
	buffers []backend.Buffer
	layers  []layerCache
	// x are a block's input and output, in turn.
	x [2]region
	// views are the model's, viewPorts what each of them binds; parts is the same
	// for each part that a pass of the widest rows is cut into.
	views     []model.View
	viewPorts []viewPorts
	parts     [][]viewPorts
	// filled is the pass that each of them was filled for: viewPorts by -1, parts
	// by their number.
	filled   map[int]*way
	rowBytes int // of a row of x
	// cacheBytes is the size of the blocks' buffers, ioBytes of the rest.
	cacheBytes, ioBytes int64
}

func newMemory(dev backend.Device, c model.Config, views []model.View, o Options, slots int) (_ *memory, err error) {
	m := &memory{layers: make([]layerCache, c.Layers), views: views, viewPorts: make([]viewPorts, len(views)), filled: make(map[int]*way)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	rows, element := o.Rows[0], o.Recipe.Activations.Size()
	m.rowBytes = c.Hidden * element
	for block := range o.Blocks {
		var a arena
		first, end := o.blockRange(block, c.Layers)
		for i := first; i < end; i++ {
			for kv := range 2 {
				a.place(&m.layers[i].past[kv], c.KVHeads*slots*c.HeadDim*o.Recipe.Cache.Size())
				a.place(&m.layers[i].fresh[kv], c.KVHeads*rows*c.HeadDim*o.Recipe.Cache.Size())
			}
		}
		if err := m.allocate(dev, &a); err != nil {
			return nil, err
		}
		m.cacheBytes += int64(a.size)
	}
	var a arena
	a.place(&m.x[0], rows*c.Hidden*element)
	a.place(&m.x[1], rows*c.Hidden*element)
	place := func(ports []viewPorts, rows int) {
		for i := range ports {
			v := &ports[i]
			a.place(&v.cos, rows*c.RopeDim/2*element)
			a.place(&v.sin, rows*c.RopeDim/2*element)
			a.place(&v.mask, c.Heads/c.KVHeads*rows*(slots+rows)*element)
		}
	}
	place(m.viewPorts, rows)
	if n := o.parts(); n > 1 {
		m.parts = make([][]viewPorts, n)
		for i := range m.parts {
			m.parts[i] = make([]viewPorts, len(views))
			place(m.parts[i], o.partRows())
		}
	}
	m.ioBytes = int64(a.size)
	return m, m.allocate(dev, &a)
}

func (m *memory) allocate(dev backend.Device, a *arena) error {
	b, err := a.allocate(dev)
	if err == nil {
		m.buffers = append(m.buffers, b)
	}
	return err
}

func (m *memory) close() error {
	var err error
	for _, b := range m.buffers {
		err = errors.Join(err, b.Close())
	}
	return err
}

// blockPorts maps the ports of a block to memory, for passes that run whole.
func (m *memory) blockPorts(block, first, end int) map[string]*region {
	ports := map[string]*region{
		model.PortX: &m.x[block%2], model.PortY: &m.x[(block+1)%2],
	}
	m.mapViews(ports, m.viewPorts)
	for i := first; i < end; i++ {
		l := &m.layers[i]
		ports[model.PastKey(i)], ports[model.PastValue(i)] = &l.past[0], &l.past[1]
		ports[model.NewKey(i)], ports[model.NewValue(i)] = &l.fresh[0], &l.fresh[1]
	}
	return ports
}

func (m *memory) mapViews(ports map[string]*region, memory []viewPorts) {
	for i, v := range m.views {
		in := &memory[i]
		ports[v.Cos], ports[v.Sin], ports[v.Mask] = &in.cos, &in.sin, &in.mask
	}
}

// partPorts maps the ports of a block to memory for each part of a pass that is
// cut into parts of rows: they read and write their own rows.
func (m *memory) partPorts(block, first, end, rows int) []map[string]*region {
	all := make([]map[string]*region, len(m.parts))
	for part := range all {
		ports := m.blockPorts(block, first, end)
		m.mapViews(ports, m.parts[part])
		for _, name := range []string{model.PortX, model.PortY} {
			r := *ports[name]
			skip := part * rows * m.rowBytes
			r.offset, r.size = r.offset+skip, r.size-skip
			ports[name] = &r
		}
		all[part] = ports
	}
	return all
}

// total is the size of all buffers.
func (m *memory) total() int64 { return m.cacheBytes + m.ioBytes }

// bind orders the regions as the signature wants them.
func bind(graph string, s backend.Signature, ports map[string]*region) ([]backend.Binding, error) {
	bindings := make([]backend.Binding, 0, len(s.Inputs)+len(s.Outputs))
	for _, list := range [][]backend.Port{s.Inputs, s.Outputs} {
		for _, port := range list {
			r := ports[port.Name]
			if r == nil || port.SizeBytes() > r.size {
				return nil, fmt.Errorf("engine: graph %s: port %s of %d bytes: %w", graph, port.Name, port.SizeBytes(), backend.ErrBinding)
			}
			bindings = append(bindings, backend.Binding{Buffer: r.buffer, Offset: r.offset})
		}
	}
	return bindings, nil
}

// copyRows copies rows from, of a [heads, fromRows, row] array, behind each
// other to row at of a [heads, toRows, row] array; size is a row's bytes.
func copyRows(to, from []byte, heads, toRows, fromRows, size, at int, rows []int) {
	for head := range heads {
		dst := to[(head*toRows+at)*size:]
		src := from[head*fromRows*size:]
		for i := 0; i < len(rows); {
			run := 1 // neighbours are copied in one piece
			for i+run < len(rows) && rows[i+run] == rows[i]+run {
				run++
			}
			copy(dst[i*size:(i+run)*size], src[rows[i]*size:])
			i += run
		}
	}
}
