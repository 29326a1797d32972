package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/buffers"
	"github.com/sdnpu/sdnpu/backend/engine/kvcache"
	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// batch holds the rows that one pass computes, checked, with their places in the cache.
type batch struct {
	rows []Row
	// width is the number of rows that the graphs have at least.
	width int
	// tree are the rows' places: positions, slots and parents.
	tree *buffers.Rows
	// open is true for each sequence with rows that may be committed: they are not committed yet,
	// and the sequence's tokens have not changed.
	open []bool
	// length is the context that the rows need.
	length int
	// chunk is the batch's chunk in the plan that is carried out, or unplanned.
	chunk int
	// inSlots is set if each block has stored its keys and values in their slots.
	inSlots bool
	// hidden are the rows as the last block wrote them.
	hidden []byte
}

// unplanned is the chunk of batches that belong to no plan.
const unplanned = residency.Unplanned

// newBatch checks a pass against the sequences and the graphs. ahead is the number
// of tokens, after each sequence's committed ones, that are in their slots already.
func (e *Engine) newBatch(pass Pass, ahead int) (*batch, error) {
	rows, widest := pass.Rows, e.options.Rows[0]
	if len(rows) < 1 || len(rows) > widest || pass.Width > widest {
		return nil, fmt.Errorf("engine: %w: %d rows on graphs of at least %d: want 1..%d", ErrPass, len(rows), pass.Width, widest)
	}
	b := &batch{
		rows: rows, width: max(pass.Width, len(rows)), tree: &buffers.Rows{Bases: make(map[int]int)},
		open: make([]bool, e.options.Sequences), chunk: unplanned,
	}
	taken := make(map[int]int) // slots of each sequence
	for i, r := range rows {
		if err := e.checkRow(rows, i); err != nil {
			return nil, err
		}
		base := e.sequences.Len(r.Sequence) + ahead
		b.tree.Bases[r.Sequence], b.open[r.Sequence] = base, true
		position, slot := int32(base), base+taken[r.Sequence]
		if r.Parent >= 0 {
			position = b.tree.Positions[r.Parent] + 1
		}
		b.tree.Add(r.Sequence, r.Parent, position, slot)
		taken[r.Sequence]++
		last := int(position)
		if len(rows) > e.options.partRows() {
			last = slot
		}
		b.length = max(b.length, last+1)
		if b.length > e.options.Context {
			return nil, fmt.Errorf("engine: %w: row %d: position %d: the context ends at %d", ErrPass, i, last, e.options.Context)
		}
	}
	return b, nil
}

// checkRow rejects a row whose sequence, token or parent does not exist.
func (e *Engine) checkRow(rows []Row, i int) error {
	switch r := rows[i]; {
	case r.Sequence < 0 || r.Sequence >= e.options.Sequences:
		return fmt.Errorf("engine: %w: row %d: sequence=%d: want 0..%d", ErrPass, i, r.Sequence, e.options.Sequences-1)
	case r.Token < 0 || int(r.Token) >= e.config.Vocab:
		return fmt.Errorf("engine: %w: row %d: token=%d: want 0..%d", ErrPass, i, r.Token, e.config.Vocab-1)
	case r.Parent < Root || r.Parent >= i || r.Parent >= 0 && rows[r.Parent].Sequence != r.Sequence:
		return fmt.Errorf("engine: %w: row %d: parent %d is no earlier row of its sequence", ErrPass, i, r.Parent)
	}
	return nil
}

// batchOf makes the batch of rows that were taken from the queue. x is the plan
// that it belongs to, or nil.
func (e *Engine) batchOf(rows []taskRows) (b *batch, x *residency.Run, err error) {
	if b, err = e.newBatch(passOf(rows), 0); err != nil {
		return nil, nil, err
	}
	if x = e.runOf(rows); x != nil {
		b.chunk = x.Chunk()
	}
	return b, x, nil
}

// passOf lists the rows one item after the other. A token's parent is the token before it. A
// draft's parent comes from its draft tree.
func passOf(rows []taskRows) (p Pass) {
	for _, s := range rows {
		w := s.item
		for i, token := range w.tokens[:s.n] {
			parent, last := Root, i == len(w.tokens)-1
			if i > 0 {
				parent = len(p.Rows) - 1
			}
			p.Rows = append(p.Rows, Row{Token: token, Sequence: w.sequence, Parent: parent, Top: w.everyRow || last, Logits: w.allLogits && last})
		}
		root := len(p.Rows) - 1
		for i := range s.drafts {
			p.Rows = append(p.Rows, Row{
				Token: w.drafts.Tokens[i], Sequence: w.sequence,
				Parent: root + 1 + int(w.drafts.Parents[i]), Top: true, Logits: w.allLogits,
			})
		}
	}
	return p
}

// checkPath returns an error unless rows are a path of the sequence's tree that
// begins at its root.
func (b *batch) checkPath(sequence int, rows []int) error {
	parent := Root
	for _, i := range rows {
		if i < 0 || i >= len(b.rows) || b.rows[i].Sequence != sequence || b.rows[i].Parent != parent {
			return fmt.Errorf("engine: %w: rows %v are no path of sequence %d", ErrPass, rows, sequence)
		}
		parent = i
	}
	return nil
}

// runs groups rows [first, end) by the slots that they belong to.
func (b *batch) runs(first, end int) []kvcache.Run {
	return kvcache.Runs(first, end, func(row int) (sequence, position int) { return b.tree.Sequences[row], b.tree.Slots[row] })
}

// checkFresh returns an error if keys or values of the batch, of the layers
// [first, end), are infinite or no numbers.
func (e *Engine) checkFresh(b *batch, first, end int) error {
	i := e.graphs.Load().memory.Cache().FirstNotFinite(first, end, len(b.rows))
	if i < 0 {
		return nil
	}
	return fmt.Errorf("engine: layer %d: its keys or values overflow %v: %w: recipe f32 holds larger numbers",
		i, e.options.Recipe.Cache, sampler.ErrLogits)
}
