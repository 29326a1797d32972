package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// block is a run of layers: what is in the device of it.
type block struct {
	index, first, end int
	forms             []*form // one for each width, ascending
	// latest is the graph that was loaded last, of those that are exchanged.
	latest graphswap.Graph
}

// form is a block's graph of one width. It is resident while step is there.
type form struct {
	rows  int
	graph *backend.Graph
	// ports is the memory to bind, for each part of a pass; there is one where
	// the graph takes passes whole.
	ports []map[string]*region
	image *image // nil before it was first loaded; forms may share one
	step  *step
}

// step is one graph, ready to run.
type step struct {
	*loaded
	bindings [][]backend.Binding // of each part
}

// bindStep orders the regions as a loaded graph wants them, and lets the device
// see them now: a session that has no room for them says so before a pass needs
// them.
func bindStep(l *loaded, ports []map[string]*region) (*step, error) {
	s := &step{loaded: l, bindings: make([][]backend.Binding, len(ports))}
	for part := range ports {
		var err error
		if s.bindings[part], err = bind(l.graph, l.signature, ports[part]); err != nil {
			return nil, err
		}
		if b, ok := l.program.(backend.Binder); ok {
			if err := b.Bind(l.graph, s.bindings[part]); err != nil {
				return nil, fmt.Errorf("engine: %w", err)
			}
		}
	}
	return s, nil
}

// newBlocks describes the blocks of a family; nothing is loaded yet.
func newBlocks(sets [][]*backend.Graph, m *memory, o Options, layers int) []*block {
	blocks := make([]*block, len(sets))
	for i, graphs := range sets {
		b := &block{index: i}
		b.first, b.end = o.blockRange(i, layers)
		for at, rows := range slices.Backward(o.Rows) {
			f := &form{rows: rows, graph: graphs[len(o.Rows)-1-at]}
			if len(m.parts) > 0 && rows == o.partRows() {
				f.ports = m.partPorts(i, b.first, b.end, rows)
			} else {
				f.ports = []map[string]*region{m.blockPorts(i, b.first, b.end)}
			}
			b.forms = append(b.forms, f)
		}
		blocks[i] = b
	}
	return blocks
}

// fitting is the narrowest resident form that holds n rows, else the widest
// resident one, else nil.
func (b *block) fitting(n int) (best *form) {
	for _, f := range b.forms {
		if f.step == nil {
			continue
		}
		if best = f; f.rows >= n {
			return f
		}
	}
	return best
}

// open brings a form of its own image into the device. The step is the caller's
// to set.
func (f *form) open(ctx context.Context, l *loader) (*step, error) {
	var err error
	graphs := []*backend.Graph{f.graph}
	if f.image != nil {
		err = f.image.reopen(ctx, l)
	}
	if errors.Is(err, backend.ErrImage) { // a damaged one is made again
		l.options.Logger.Warn("an image that was loaded before is compiled again", "graph", f.graph.Name, "reason", err)
		err = f.image.close()
		f.image = nil
	}
	if f.image == nil && err == nil {
		f.image, err = l.loadImage(ctx, graphs)
	}
	if err != nil {
		return nil, err
	}
	s, err := bindStep(f.image.graphs[0], f.ports)
	if err != nil {
		return nil, errors.Join(err, f.free())
	}
	return s, nil
}

// free gives the program's memory back and keeps the image for the next time.
// The step is gone before.
func (f *form) free() error {
	if f.image == nil || f.image.program == nil {
		return nil
	}
	err := f.image.program.Close()
	f.image.program, f.image.graphs = nil, nil
	if err != nil {
		return fmt.Errorf("engine: free %s: %w", f.graph.Name, err)
	}
	return nil
}

// sizeBytes is the device memory that the form's own image takes.
func (f *form) sizeBytes() int64 {
	if f.image == nil || f.image.program == nil {
		return 0
	}
	return f.image.program.SizeBytes()
}

// close frees the form's program and its image.
func (f *form) close() error {
	f.step = nil
	if f.image == nil {
		return nil
	}
	err := f.image.close()
	f.image = nil
	return err
}
