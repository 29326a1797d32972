package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// family is the blocks at one length of past: their graphs in every width and
// the memory that those bind.
type family struct {
	context int // tokens of one sequence
	slots   int // of all sequences
	blocks  []*block
	images  []*image // of all forms, where those of a block may share one
	memory  *memory
	hidden  []byte // a row of a mask that sees nothing
	// loader made the programs and makes those that are exchanged; start is what
	// they begin with, nil for wide graphs.
	loader *loader
	start  []graphswap.Graph
	costs  *costs
	// programBytes is the device memory of the images.
	programBytes atomic.Int64
}

// newFamily allocates the memory for a context; its graphs come by load. The
// cache comes before the programs: it is what a device has to place in one
// piece.
func (e *Engine) newFamily(context int) (*family, error) {
	o := e.options
	f := &family{context: context, slots: context * o.Sequences, costs: e.costs}
	var err error
	f.memory, err = newMemory(e.dev, e.config, e.model.Views(o.Context), o, f.slots)
	if err != nil {
		return nil, err
	}
	f.hidden = hiddenRow(f.slots+o.Rows[0], o.Recipe.Activations)
	return f, nil
}

// load makes the family's programs of sets of graphs, one for each block. After
// an error there are none.
func (f *family) load(ctx context.Context, l *loader, sets [][]*backend.Graph, o Options, layers int) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, f.unload())
		}
	}()
	f.blocks, f.loader = newBlocks(sets, f.memory, o, layers), l
	if o.apart() {
		return f.loadApart(ctx, l, o)
	}
	for i, graphs := range sets {
		begin := time.Now()
		loaded, images, err := l.load(ctx, graphs)
		f.images = append(f.images, images...)
		if err != nil {
			return err
		}
		took := time.Since(begin) / time.Duration(len(graphs))
		for j, form := range f.blocks[i].forms {
			if form.step, err = bindStep(loaded[j], form.ports); err != nil {
				return err
			}
			if err := f.costs.learn(ctx, f.blocks[i], form, form.step, took); err != nil {
				return err
			}
		}
	}
	f.programBytes.Store(programBytes(f.images))
	return nil
}

// loadApart loads the graphs of blocks that need not have all of theirs in the
// device. Those that do not stay are loaded and freed before the others, which
// sees to it that their images are there.
func (f *family) loadApart(ctx context.Context, l *loader, o Options) error {
	start, used := o.start()
	stays := func(b *block, g graphswap.Graph) bool {
		if f.start == nil || f.start[b.index] == graphswap.None {
			return start&g != 0
		}
		return f.start[b.index]&g != 0
	}
	for _, keep := range []bool{false, true} {
		for _, b := range f.blocks {
			for _, g := range []graphswap.Graph{graphswap.G2, graphswap.G1} {
				if used&g == 0 || stays(b, g) != keep {
					continue
				}
				if err := f.loadForm(ctx, l, b, g, keep); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *family) loadForm(ctx context.Context, l *loader, b *block, g graphswap.Graph, keep bool) error {
	form, begin := b.form(g), time.Now()
	s, err := form.open(ctx, l)
	if err != nil {
		return err
	}
	if err := f.costs.learn(ctx, b, form, s, time.Since(begin)); err != nil {
		return errors.Join(err, form.free())
	}
	if !keep {
		return form.free()
	}
	form.step, b.latest = s, g
	f.programBytes.Add(form.sizeBytes())
	return nil
}

// unload frees the programs and keeps the memory.
func (f *family) unload() error {
	err := closeImages(f.images)
	for _, b := range f.blocks {
		for _, form := range b.forms {
			err = errors.Join(err, form.close())
		}
	}
	f.images, f.blocks = nil, nil
	f.programBytes.Store(0)
	return err
}

// sizeBytes is what programs and buffers take.
func (f *family) sizeBytes() int64 { return f.programBytes.Load() + f.memory.total() }

func (f *family) close() error { return errors.Join(f.unload(), f.memory.close()) }

func closeImages(images []*image) error {
	var err error
	for _, i := range images {
		err = errors.Join(err, i.close())
	}
	return err
}

// programBytes is the device memory of the loaded images.
func programBytes(images []*image) (size int64) {
	for _, i := range images {
		if i.program != nil {
			size += i.program.SizeBytes()
		}
	}
	return size
}

// copyFrom takes the committed keys and values of all sequences over from a
// family of another context. Slots behind them hold zeros already.
func (f *family) copyFrom(old *family, sequences *pool, kvHeads, size int) {
	for i := range f.memory.layers {
		for kv := range 2 {
			to, from := f.memory.layers[i].past[kv], old.memory.layers[i].past[kv]
			dst, src := to.bytes(to.size), from.bytes(from.size)
			for s := range sequences.sequences {
				n := sequences.length(s) * size
				for h := range kvHeads {
					at, was := (h*f.slots+s*f.context)*size, (h*old.slots+s*old.context)*size
					copy(dst[at:at+n], src[was:was+n])
				}
			}
		}
	}
}
