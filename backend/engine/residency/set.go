package residency

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Set holds the graphs of all blocks at one context tier, loaded or not.
type Set struct {
	// Blocks of a Set is empty until Load.
	Blocks []*Block

	images []*images.Image // images holds images that several graphs share; all other graphs have their own
	loader *images.Loader  // loader loads all programs for the first time, and again when graphs are switched
	costs  *Costs          // costs is nil if the engine measures no costs
	// programBytes is the device memory of the loaded images.
	programBytes atomic.Int64
}

// NewSet returns a set of blocks without graphs. costs, if not nil, learns how long
// loads and runs take.
func NewSet(costs *Costs) *Set { return &Set{costs: costs} }

// Layout holds the widths, the number of layers and the memory of the graphs that a set loads.
type Layout struct {
	// Rows lists the widths of each block's graphs, descending.
	Rows []int
	// Layers is the number of layers that all blocks hold together.
	Layers int
	// Ports returns the memory that the ports of a block's graph use, for each slice of
	// a pass's rows that a graph of the given width computes.
	Ports func(b *Block, rows int) []map[string]*arena.Region
	// Switched is set if each graph has its own image, so that a block can have only some
	// of its graphs loaded. Start tells which graphs of each block are loaded first, and
	// Used which graphs are ever loaded. Resident, if set, lists for each block the graphs
	// that are loaded first. For a block that Resident does not list, Start applies.
	Switched    bool
	Start, Used graphswap.Variant
	Resident    []graphswap.Variant
	// OnDemand is set if the images of all graphs are compiled already. If OnDemand is set,
	// Load loads only the graphs with which the engine starts.
	OnDemand bool
}

// starts reports whether Load keeps a graph of a block loaded.
func (o Layout) starts(b *Block, v graphswap.Variant) bool {
	if o.Resident == nil || o.Resident[b.Index] == graphswap.None {
		return o.Start&v != 0
	}
	return o.Resident[b.Index]&v != 0
}

// Load compiles or loads the graphs of each block. The argument sets has one list of graphs
// per block, with the smallest width first. After an error of Load, no graph is loaded.
func (s *Set) Load(ctx context.Context, l *images.Loader, sets [][]*backend.Graph, o Layout) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Unload())
		}
	}()
	s.Blocks, s.loader = newBlocks(sets, o), l
	if o.Switched {
		return s.loadSwitched(ctx, l, o)
	}
	for i, graphs := range sets {
		begin := time.Now()
		loaded, list, err := l.Load(ctx, graphs)
		s.images = append(s.images, list...)
		if err != nil {
			return err
		}
		took := time.Since(begin) / time.Duration(len(graphs))
		for j, g := range s.Blocks[i].graphs {
			if g.bound, err = Bind(loaded[j], g.ports); err != nil {
				return err
			}
			if err := s.costs.measureBlock(ctx, s.Blocks[i], g.Rows, g.bound, took); err != nil {
				return err
			}
		}
	}
	s.programBytes.Store(images.TotalBytes(s.images))
	return nil
}

// newBlocks returns blocks without loaded graphs.
func newBlocks(sets [][]*backend.Graph, o Layout) []*Block {
	blocks := make([]*Block, len(sets))
	for i, graphs := range sets {
		b := &Block{Index: i}
		b.First, b.End = images.BlockRange(i, len(sets), o.Layers)
		for at, rows := range slices.Backward(o.Rows) {
			b.graphs = append(b.graphs, &BlockGraph{Rows: rows, source: graphs[len(o.Rows)-1-at], ports: o.Ports(b, rows)})
		}
		blocks[i] = b
	}
	return blocks
}

// If plans switch graphs, loadSwitched loads the graphs with which the engine starts.
// loadSwitched first loads and frees the graphs that only plans need, so that the images of
// all graphs exist.
func (s *Set) loadSwitched(ctx context.Context, l *images.Loader, o Layout) error {
	for _, keep := range []bool{false, true} {
		if !keep && o.OnDemand {
			continue
		}
		for _, b := range s.Blocks {
			for _, v := range []graphswap.Variant{graphswap.Decode, graphswap.Prefill} {
				if o.Used&v == 0 || o.starts(b, v) != keep {
					continue
				}
				if err := s.loadGraph(ctx, l, b, v, keep); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Set) loadGraph(ctx context.Context, l *images.Loader, b *Block, v graphswap.Variant, keep bool) error {
	g, begin := b.Graph(v), time.Now()
	bound, err := g.open(ctx, l)
	if err != nil {
		return err
	}
	if err := s.costs.measureBlock(ctx, b, g.Rows, bound, time.Since(begin)); err != nil {
		return errors.Join(err, g.free())
	}
	if !keep {
		return g.free()
	}
	g.bound, b.latest = bound, v
	s.programBytes.Add(g.sizeBytes())
	return nil
}

// Reload loads graphs again, because the device has lost them or because a block has no
// loaded graph. If plans switch a block's graphs, Reload loads those graphs that were
// loaded before. If none of a block's graphs was loaded, Reload loads the prefill
// graph. No pass and no loader may run during Reload.
func (s *Set) Reload(ctx context.Context) error {
	loaded, err := images.ReloadAll(ctx, s.loader.Silent(), s.images)
	if err != nil {
		return err
	}
	for _, b := range s.Blocks {
		for i, g := range b.graphs {
			if g.image != nil {
				err = s.reloadGraph(ctx, g, g.bound != nil || i == len(b.graphs)-1 && b.Narrowest(1) == nil)
			} else if len(s.images) > 0 {
				g.bound, err = Bind(loaded[0], g.ports)
				loaded = loaded[1:]
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reloadGraph frees a graph that has its own image and, if `load` is set, loads the
// graph again.
func (s *Set) reloadGraph(ctx context.Context, g *BlockGraph, load bool) (err error) {
	s.programBytes.Add(-g.sizeBytes())
	if freed := g.free(); freed != nil { // if the device has lost the graph, an error of Close is expected
		s.loader.Logger().Debug("a graph that the device has lost could not be freed", "reason", freed)
	}
	if !load {
		return nil
	}
	g.bound, err = g.open(ctx, s.loader.Silent())
	s.programBytes.Add(g.sizeBytes())
	return err
}

// Unload frees all programs and images of the set.
func (s *Set) Unload() error {
	err := images.CloseAll(s.images)
	for _, b := range s.Blocks {
		for _, g := range b.graphs {
			err = errors.Join(err, g.close())
		}
	}
	s.images, s.Blocks = nil, nil
	s.programBytes.Store(0)
	return err
}

// ProgramBytes returns the device memory of the loaded images.
func (s *Set) ProgramBytes() int64 { return s.programBytes.Load() }

// LoadTime returns the total time of loading the loaded graphs on the device's clock, if
// the device's calls take no time on the host's clock, and otherwise zero.
func (s *Set) LoadTime() (t time.Duration) {
	for _, i := range s.images {
		t += i.LoadTime()
	}
	for _, b := range s.Blocks {
		for _, g := range b.graphs {
			t += g.image.LoadTime()
		}
	}
	return t
}

// Loader returns the loader that loads the set's images.
func (s *Set) Loader() *images.Loader { return s.loader }

// LoadCost returns the cost that the device reports for the load of a graph. LoadCost
// tells which clock measures the device's calls. ok is false if the device reports no
// costs.
func (s *Set) LoadCost() (c backend.Cost, ok bool) {
	for _, b := range s.Blocks {
		for _, g := range b.graphs {
			if g.bound == nil {
				continue
			}
			if t, ok := g.bound.Program.(backend.Timed); ok {
				return t.LoadCost(), true
			}
		}
	}
	return c, false
}

// AddPrefill loads the prefill graph of a block whose set was loaded with decode graphs only.
// If the load fails, the set stays as it was. No pass may run during AddPrefill.
func (s *Set) AddPrefill(ctx context.Context, b *Block, source *backend.Graph, rows int, ports []map[string]*arena.Region) (err error) {
	g := &BlockGraph{Rows: rows, source: source, ports: ports}
	if g.bound, err = g.open(ctx, s.loader.Silent()); err != nil {
		return errors.Join(err, g.close())
	}
	b.graphs = append(b.graphs, g)
	s.programBytes.Add(g.sizeBytes())
	return nil
}
