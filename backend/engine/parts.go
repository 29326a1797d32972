package engine

import (
	"context"
	"fmt"
	"slices"
)

// freshRows is where a pass left the keys and values of a layer: rows of its
// rows, from the first on, stand behind each other per head.
type freshRows struct {
	bytes [2][]byte // k and v [KVHeads, width, HeadDim]
	width int
}

func (f freshRows) of(kv int) (bytes []byte, width int) { return f.bytes[kv], f.width }

// inputs is what the graphs of a pass read beside the cache. Graphs of different
// widths may compute one pass, each its blocks, so what depends on the width is
// filled when the first one of it is about to run.
type inputs struct {
	engine *Engine
	family *family
	pl     *plan
	// written counts the rows of x that hold finite numbers.
	written int
	filled  map[fill]bool
}

// fill names the memory that a graph of a width binds for a part of the pass.
type fill struct{ width, part int }

// newInputs embeds the tokens, which the first block reads.
func (e *Engine) newInputs(f *family, pl *plan) (*inputs, error) {
	tokens := make([]int32, len(pl.rows))
	for i, r := range pl.rows {
		tokens[i] = r.Token
	}
	if err := e.model.Embed(f.memory.x[0].bytes(len(tokens)*f.memory.rowBytes), tokens, e.options.Recipe); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &inputs{engine: e, family: f, pl: pl, written: len(tokens), filled: make(map[fill]bool)}, nil
}

// prepare fills what a form of the block binds for n parts. What one step left
// behind the rows of the last one is no number of this pass; padding only has to
// be finite, which zeros are.
func (in *inputs) prepare(b *block, f *form, n int) {
	m := in.family.memory
	if covered := f.rows * n; covered > in.written {
		x := m.x[b.index%2].bytes(covered * m.rowBytes)
		clear(x[in.written*m.rowBytes:])
	}
	in.written = f.rows * n
	for part := range n {
		if at := (fill{f.rows, part}); !in.filled[at] {
			in.filled[at] = true
			in.fillViews(f, part)
		}
	}
}

// fillViews writes angles and masks of a part's rows.
func (in *inputs) fillViews(f *form, part int) {
	e, fam, m := in.engine, in.family, f.rows
	c, element := e.config, e.options.Recipe.Activations.Size()
	first := part * m
	positions := make([]int32, m)
	copy(positions, in.pl.positions[min(first, len(in.pl.positions)):])
	ports := fam.memory.viewPorts
	if len(f.ports) > 1 {
		ports = fam.memory.parts[part]
	}
	angles, groups := m*c.RopeDim/2*element, c.Heads/c.KVHeads
	shape := cacheShape{context: fam.context, slots: fam.slots, element: element}
	for i, v := range fam.memory.views {
		v.Rope(ports[i].cos.bytes(angles), ports[i].sin.bytes(angles), positions, e.options.Recipe)
		mask := ports[i].mask.bytes(groups * m * (fam.slots + m) * element)
		in.pl.fillMask(mask, fam.hidden, v, shape, groups, first, m)
	}
}

// runBlock computes the pass's rows through one block: at once where the form
// has as many rows, else part by part. Keys and values of a part go into the
// free slots behind the committed ones, where the parts after it see them; the
// slots are zeros again when the block is done, whatever came of it.
func (e *Engine) runBlock(ctx context.Context, f *family, b *block, form *form, in *inputs, r *Result) error {
	n := (len(in.pl.rows) + form.rows - 1) / form.rows
	if n > len(form.ports) {
		return fmt.Errorf("engine: %w: %d rows on a graph of %d", ErrPass, len(in.pl.rows), form.rows)
	}
	in.prepare(b, form, n)
	defer func() { e.clearSlots(f, b, in.pl.rows[:(n-1)*form.rows], in.pl) }()
	for part := range n {
		if err := e.run(ctx, form.step, part, r); err != nil {
			return err
		}
		if n > 1 {
			e.gather(f, b, in.pl, part, form.rows)
		}
	}
	for i := b.first; i < b.end; i++ {
		l := &f.memory.layers[i]
		in.pl.fresh[i] = freshRows{width: form.rows, bytes: [2][]byte{l.fresh[0].all(), l.fresh[1].all()}}
		if n > 1 {
			in.pl.fresh[i] = freshRows{width: e.options.Rows[0], bytes: l.gathered}
		}
	}
	return nil
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

// clearSlots makes the slots zeros that rows used while their block ran.
func (e *Engine) clearSlots(f *family, b *block, rows []Row, pl *plan) {
	if len(rows) == 0 {
		return
	}
	size := e.config.HeadDim * e.options.Recipe.Cache.Size()
	runs := pl.slotRuns(0, len(rows))
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
