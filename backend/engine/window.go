package engine

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// window returns the execution whose next chunks go through a block before the
// next block gets them, or nil: then they go one by one, and rows of other
// requests may go with them.
func (l *lanes) window() *execution {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.on
	if x == nil || x.ended || x.aborted || len(x.windowSteps()) <= x.plan.Blocks {
		return nil
	}
	return x
}

// windowSteps are the steps up to the first one before which all chunks that
// have begun are through.
func (x *execution) windowSteps() []graphswap.Step {
	from := x.chunk * x.plan.Blocks
	if from >= len(x.plan.Steps) {
		return nil
	}
	steps := x.plan.Steps[from:]
	last := x.chunk
	for i, s := range steps {
		last = max(last, s.Chunk)
		if i+1 == (last+1-x.chunk)*x.plan.Blocks {
			return steps[:i+1]
		}
	}
	return steps
}

// walk is several chunks of a prompt on their way through the blocks. Hidden
// states of all but one wait on the host; keys and values are in the slots where
// they belong, though only those of chunks that are through are committed.
type walk struct {
	engine *Engine
	x      *execution
	// first is the first chunk; ways are those that have begun and rows how many
	// rows those hold.
	first int
	ways  []*way
	rows  int
	// on is who has x, before which block.
	on    *way
	block int
}

// runWindow computes the next chunks of a plan that go through the blocks
// together. The job is not in the line, the caller holds the lane.
func (e *Engine) runWindow(ctx context.Context, x *execution) {
	k := &walk{engine: e, x: x, first: x.chunk}
	err := k.run(ctx, x.windowSteps())
	k.clear()
	if e.survives(err) {
		err = nil // the plan went with the device: chunks that are not through run one by one
	}
	if j := x.job; err != nil || len(j.tokens) == 0 || !e.line.give(j) {
		e.line.finish(j, err)
	}
}

func (k *walk) run(ctx context.Context, steps []graphswap.Step) error {
	for _, s := range steps {
		w, b, err := k.enter(s)
		if err != nil {
			return err
		}
		if err := k.engine.runBlock(ctx, w, b); err != nil {
			return err
		}
		if err := k.leave(ctx, w, b); err != nil {
			return err
		}
	}
	return nil
}

// enter gives x to the step's chunk.
func (k *walk) enter(s graphswap.Step) (w *way, b *block, err error) {
	if k.engine.closing.begun() { // nobody waits for a whole prompt
		return nil, nil, fmt.Errorf("engine: %w", backend.ErrClosed)
	}
	if i := s.Chunk - k.first; i == len(k.ways) {
		if err := k.begin(s.Chunk); err != nil {
			return nil, nil, err
		}
	}
	w = k.ways[s.Chunk-k.first]
	b = w.family.blocks[s.Block]
	if k.on != w || k.block != s.Block {
		m := w.family.memory
		copy(m.x[s.Block%2].all(), w.hidden)
		w.written = len(w.pl.rows)
	}
	k.on, k.block = w, s.Block
	return w, b, nil
}

// begin starts the next chunk.
func (k *walk) begin(chunk int) error {
	j, e := k.x.job, k.engine
	through := 0 // rows of chunks that are committed, and no more among the job's tokens
	for _, w := range k.ways {
		if w.result == nil {
			through += len(w.pl.rows)
		}
	}
	rest := *j
	rest.tokens = j.tokens[k.rows-through:]
	s := share{job: &rest, n: min(e.options.Rows[0], len(rest.tokens))}
	if s.n == 0 {
		return fmt.Errorf("engine: %w: chunk %d of a prompt without tokens", ErrPass, chunk)
	}
	pl, err := e.planAhead(sharesPass([]share{s}), k.rows-through)
	if err != nil {
		return err
	}
	pl.chunk, pl.inSlots = chunk, true
	w, err := e.begin(pl)
	if err != nil {
		return err
	}
	k.ways, k.rows, k.on, k.block = append(k.ways, w), k.rows+s.n, w, 0
	return nil
}

// leave puts what a block made of a chunk where it is found again; behind the
// last block the chunk is through.
func (k *walk) leave(ctx context.Context, w *way, b *block) error {
	e, m := k.engine, w.family.memory
	if err := e.checkFresh(w.pl, b.first, b.end); err != nil {
		return err
	}
	e.store(w.family, b, w.pl)
	k.block++
	if b.index < len(w.family.blocks)-1 {
		w.hidden = append(w.hidden[:0], m.x[k.block%2].bytes(len(w.pl.rows)*m.rowBytes)...)
		return nil
	}
	r, err := w.end(ctx)
	if err != nil {
		return err
	}
	s := share{job: k.x.job, n: len(w.pl.rows)}
	if err := e.settle(ctx, s, 0, r); err != nil {
		return err
	}
	w.result, w.hidden = nil, nil // through
	e.lanes.change(func() { k.x.chunk++ })
	return nil
}

// store puts a block's keys and values of a pass into their slots.
func (e *Engine) store(f *family, b *block, pl *plan) {
	size := e.config.HeadDim * e.options.Recipe.Cache.Size()
	for i := b.first; i < b.end; i++ {
		for kv := range 2 {
			fresh, width := pl.fresh[i].of(kv)
			past := f.memory.layers[i].past[kv].all()
			for head := range e.config.KVHeads {
				for _, run := range pl.slotRuns(0, len(pl.rows)) {
					at := (head*f.slots + run.sequence*f.context + run.slot) * size
					copy(past[at:], fresh[(head*width+run.row)*size:(head*width+run.row+run.n)*size])
				}
			}
		}
	}
}

// clear makes the slots zeros again of chunks that did not come through.
func (k *walk) clear() {
	for _, w := range k.ways {
		if w.result == nil {
			continue
		}
		for _, b := range w.family.blocks {
			k.engine.clearSlots(w.family, b, w.pl, len(w.pl.rows))
		}
	}
}
