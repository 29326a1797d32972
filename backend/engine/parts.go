package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// freshRows is where a pass left the keys and values of a layer: rows of its
// rows, from the first on, stand behind each other per head.
type freshRows struct {
	bytes [2][]byte // k and v [KVHeads, width, HeadDim]
	width int
}

func (f freshRows) of(kv int) (bytes []byte, width int) { return f.bytes[kv], f.width }

// way is a pass on its way through the blocks. Graphs of different widths may
// compute it, each its blocks, so what depends on the width is filled when the
// first one of it is about to run.
type way struct {
	engine *Engine
	family *family
	pl     *plan
	result *Result
	// written counts the rows of x that hold finite numbers.
	written int
	// hidden keeps x while another pass has it.
	hidden []byte
}

// begin embeds the tokens, which the first block reads.
func (e *Engine) begin(pl *plan) (*way, error) {
	e.last = nil
	f := e.family.Load()
	tokens := make([]int32, len(pl.rows))
	for i, r := range pl.rows {
		tokens[i] = r.Token
	}
	if err := e.model.Embed(f.memory.x[0].bytes(len(tokens)*f.memory.rowBytes), tokens, e.options.Recipe); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	pl.fresh = make([]freshRows, e.config.Layers)
	return &way{
		engine: e, family: f, pl: pl, written: len(tokens),
		result: &Result{
			Logits: make([][]float32, len(pl.rows)), Top: make([]sampler.Top, len(pl.rows)),
			ValidRows: len(pl.rows), Ops: make(map[backend.Lane]int64),
		},
	}, nil
}

// end computes the logits.
func (w *way) end(ctx context.Context) (*Result, error) {
	w.pl.hidden = w.family.memory.x[len(w.family.blocks)%2]
	if err := w.engine.runHead(ctx, w.pl, w.result); err != nil {
		return nil, err
	}
	w.pl.rows = slices.Clone(w.pl.rows) // the caller may reuse its slice
	w.engine.last = w.pl
	return w.result, nil
}

// parts is how many parts of the pass a form computes, one after the other.
func (w *way) parts(f *form) (int, error) {
	n := (len(w.pl.rows) + f.rows - 1) / f.rows
	if n > len(f.ports) {
		return 0, fmt.Errorf("engine: %w: %d rows on a graph of %d", ErrPass, len(w.pl.rows), f.rows)
	}
	return n, nil
}

// prepare fills what a form of the block binds for n parts. What one step left
// behind the rows of the last one is no number of this pass; padding only has to
// be finite, which zeros are.
func (w *way) prepare(b *block, f *form, n int) {
	m := w.family.memory
	if covered := f.rows * n; covered > w.written {
		x := m.x[b.index%2].bytes(covered * m.rowBytes)
		clear(x[w.written*m.rowBytes:])
	}
	w.written = f.rows * n
	w.result.PaddingRows = max(w.result.PaddingRows, w.written-len(w.pl.rows))
	for part := range n {
		at, ports := -1, m.viewPorts
		if len(f.ports) > 1 {
			at, ports = part, m.parts[part]
		}
		if m.filled[at] != w {
			w.fillViews(ports, f.rows, part*f.rows)
			m.filled[at] = w
		}
	}
}

// fillViews writes angles and masks of m rows from row first on.
func (w *way) fillViews(ports []viewPorts, m, first int) {
	e, f := w.engine, w.family
	c, element := e.config, e.options.Recipe.Activations.Size()
	positions := make([]int32, m)
	copy(positions, w.pl.positions[first:])
	angles, groups := m*c.RopeDim/2*element, c.Heads/c.KVHeads
	shape := cacheShape{context: f.context, slots: f.slots, element: element}
	for i, v := range f.memory.views {
		v.Rope(ports[i].cos.bytes(angles), ports[i].sin.bytes(angles), positions, e.options.Recipe)
		mask := ports[i].mask.bytes(groups * m * (f.slots + m) * element)
		w.pl.fillMask(mask, f.hidden, v, shape, groups, first, m)
	}
}

// compute runs the pass's rows through one block: at once where the form has as
// many rows, else part by part. Keys and values of a part go into the free slots
// behind the committed ones, where the parts after it see them; the slots are
// zeros again when the block is done, whatever came of it.
func (w *way) compute(ctx context.Context, b *block, form *form) error {
	n, err := w.parts(form)
	if err != nil {
		return err
	}
	w.prepare(b, form, n)
	defer w.leave(b, form, n)
	for part := range n {
		if err := w.part(ctx, b, form, part, n); err != nil {
			return err
		}
	}
	return nil
}

// part computes one of n parts of the pass.
func (w *way) part(ctx context.Context, b *block, form *form, part, n int) error {
	if err := w.engine.run(ctx, form.step, part, w.result); err != nil {
		return err
	}
	if n > 1 {
		w.engine.gather(w.family, b, w.pl, part, form.rows)
	}
	return nil
}

// leave notes where the block's keys and values are.
func (w *way) leave(b *block, form *form, n int) {
	if n > 1 {
		w.engine.clearSlots(w.family, b, w.pl, (n-1)*form.rows)
	}
	for i := b.first; i < b.end; i++ {
		l := &w.family.memory.layers[i]
		w.pl.fresh[i] = freshRows{width: form.rows, bytes: [2][]byte{l.fresh[0].all(), l.fresh[1].all()}}
		if n > 1 {
			w.pl.fresh[i] = freshRows{width: w.engine.options.Rows[0], bytes: l.gathered}
		}
	}
}

// gather keeps what a part left in the memory that the next one writes, and
// shows it to the next one.
func (e *Engine) gather(f *family, b *block, pl *plan, part, width int) {
	c, widest := e.config, e.options.Rows[0]
	size := c.HeadDim * e.options.Recipe.Cache.Size()
	first := part * width
	end := min(first+width, len(pl.rows))
	for i := b.first; i < b.end; i++ {
		l := &f.memory.layers[i]
		for kv := range 2 {
			if l.gathered[kv] == nil {
				l.gathered[kv] = make([]byte, c.KVHeads*widest*size)
			}
			for head := range c.KVHeads {
				from := l.fresh[kv].all()[head*width*size:]
				copy(l.gathered[kv][(head*widest+first)*size:], from[:(end-first)*size])
				if end == len(pl.rows) { // no part follows
					continue
				}
				past := l.past[kv].all()[head*f.slots*size:]
				for _, run := range pl.slotRuns(first, end) {
					at := (run.sequence*f.context + run.slot) * size
					copy(past[at:], from[(run.row-first)*size:(run.row-first+run.n)*size])
				}
			}
		}
	}
}

// clearSlots makes the slots zeros that the first rows used while their block
// ran.
func (e *Engine) clearSlots(f *family, b *block, pl *plan, rows int) {
	size := e.config.HeadDim * e.options.Recipe.Cache.Size()
	runs := pl.slotRuns(0, rows)
	for i := b.first; i < b.end; i++ {
		for _, r := range f.memory.layers[i].past {
			for head := range e.config.KVHeads {
				for _, run := range runs {
					at := (head*f.slots + run.sequence*f.context + run.slot) * size
					clear(r.all()[at : at+run.n*size])
				}
			}
		}
	}
}

// slotRun is n rows of a sequence whose slots are neighbours, as they are.
type slotRun struct{ row, sequence, slot, n int }

func (pl *plan) slotRuns(first, end int) (runs []slotRun) {
	for i := first; i < end; i++ {
		sequence, slot := pl.rows[i].Sequence, pl.slots[i]
		if n := len(runs) - 1; n >= 0 && runs[n].sequence == sequence && runs[n].slot+runs[n].n == slot {
			runs[n].n++
			continue
		}
		runs = append(runs, slotRun{i, sequence, slot, 1})
	}
	return slices.Clip(runs)
}
