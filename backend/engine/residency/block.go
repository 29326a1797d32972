package residency

import (
	"context"
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Block is a run of layers with its graphs.
type Block struct {
	// Index is the block's number. It has the layers [First, End).
	Index, First, End int

	graphs []*BlockGraph // one for each width, ascending
	// latest is the graph that was loaded last, if the block's graphs are switched.
	// Guarded by the switcher's mutex.
	latest graphswap.Variant
}

// BlockGraph is a block's graph of one width. It is loaded while it is bound.
type BlockGraph struct {
	// Rows is the graph's width.
	Rows int

	source *backend.Graph
	// ports is the memory to bind, for each part of a pass. Graphs that only run
	// whole passes have one part.
	ports []map[string]*arena.Region
	image *images.Image // nil before the first load, and if graphs share an image
	// bound is nil while the graph is not loaded. Guarded by the switcher's mutex,
	// if there is one.
	bound *BoundGraph
}

// BoundGraph is a loaded graph with its memory.
type BoundGraph struct {
	*images.Graph
	bindings [][]backend.Binding // of each part
}

// Bind binds the memory of each part to a loaded graph. If the device has to map the memory first,
// Bind makes it map it, so a session without room fails here and not during a pass.
func Bind(g *images.Graph, ports []map[string]*arena.Region) (*BoundGraph, error) {
	bound := &BoundGraph{Graph: g, bindings: make([][]backend.Binding, len(ports))}
	for part := range ports {
		var err error
		if bound.bindings[part], err = arena.Bind(g.Name, g.Signature, ports[part]); err != nil {
			return nil, err
		}
		if b, ok := g.Program.(backend.Binder); ok {
			if err := b.Bind(g.Name, bound.bindings[part]); err != nil {
				return nil, fmt.Errorf("engine: %w", err)
			}
		}
	}
	return bound, nil
}

// Bindings returns the memory of a part, to run the graph on.
func (g *BoundGraph) Bindings(part int) []backend.Binding { return g.bindings[part] }

// Parts returns the largest number of parts of a pass that the graph can run one
// after the other.
func (g *BlockGraph) Parts() int { return len(g.ports) }

// Bound returns the loaded graph. The caller has acquired the block, or graphs are
// never switched.
func (g *BlockGraph) Bound() *BoundGraph { return g.bound }

// Graph returns the block's prefill or decode graph: its widest or its narrowest.
func (b *Block) Graph(v graphswap.Variant) *BlockGraph {
	switch v {
	case graphswap.Prefill:
		return b.graphs[len(b.graphs)-1]
	case graphswap.Decode:
		return b.graphs[0]
	}
	return nil
}

// Narrowest returns the narrowest loaded graph that holds n rows. If none does, it
// returns the widest loaded graph, or nil.
func (b *Block) Narrowest(n int) (best *BlockGraph) {
	for _, g := range b.graphs {
		if g.bound == nil {
			continue
		}
		if best = g; g.Rows >= n {
			return g
		}
	}
	return best
}

// resident returns which of the block's two switched graphs are loaded.
func (b *Block) resident() (v graphswap.Variant) {
	for _, one := range []graphswap.Variant{graphswap.Prefill, graphswap.Decode} {
		if b.Graph(one).bound != nil {
			v |= one
		}
	}
	return v
}

// open loads a graph that has its own image, and binds it. The caller sets bound.
func (g *BlockGraph) open(ctx context.Context, l *images.Loader) (*BoundGraph, error) {
	var err error
	if g.image != nil {
		err = g.image.Reload(ctx, l)
	}
	if errors.Is(err, backend.ErrImage) { // a damaged image is made again
		l.Logger().Warn("an image that was loaded before is compiled again", "graph", g.source.Name, "reason", err)
		err = g.image.Close()
		g.image = nil
	}
	if g.image == nil && err == nil {
		g.image, err = l.LoadImage(ctx, []*backend.Graph{g.source})
	}
	if err != nil {
		return nil, err
	}
	bound, err := Bind(g.image.Graphs()[0], g.ports)
	if err != nil {
		return nil, errors.Join(err, g.free())
	}
	return bound, nil
}

// free frees the program and keeps the image for the next load. The caller has
// cleared bound.
func (g *BlockGraph) free() error {
	if err := g.image.Free(); err != nil {
		return fmt.Errorf("engine: free %s: %w", g.source.Name, err)
	}
	return nil
}

// sizeBytes returns the device memory of the graph's own image.
func (g *BlockGraph) sizeBytes() int64 { return g.image.SizeBytes() }

// close frees the graph's program and its image.
func (g *BlockGraph) close() error {
	g.bound = nil
	err := g.image.Close()
	g.image = nil
	return err
}
