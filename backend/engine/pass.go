package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// Root is the Parent of rows that follow a sequence's committed tokens.
const Root = -1

// Pass lists the rows that the graphs compute at once.
type Pass struct {
	Rows []Row
	// Width is the least number of rows of the graphs. 0 means the smallest graphs that
	// hold Rows.
	Width int
}

// Row is one token of a pass.
type Row struct {
	// Token is an id of the vocabulary.
	Token int32
	// Sequence is the sequence that it continues, below [Options].Sequences.
	Sequence int
	// Parent is the index of the row before this one, or [Root]. It is smaller than
	// this row's index, and its sequence is the same. Rows of one parent are
	// alternatives and do not see each other.
	Parent int
	// Logits asks for all logits of the token after this row. Top asks for the best of
	// them, which costs the host less; an engine without tops then returns Logits.
	Logits, Top bool
}

// Result is the result of a pass.
type Result struct {
	// Logits has an entry for each row, nil if the row did not ask for it. The entries
	// are valid until the next pass.
	Logits [][]float32
	// Top has an entry for each row, without tokens if the row did not ask for it.
	Top []sampler.Top
	// ValidRows and PaddingRows count rows of the blocks' graphs.
	ValidRows, PaddingRows int
	// virtual is the time of all runs on the device's own clock, or 0. paced is the same
	// time if the device simulates another one, whether calls last that long or not.
	virtual, paced time.Duration
	// Ops counts the graph operators that ran, by lane.
	Ops map[backend.Lane]int64
	// began and took are the start time and the duration of the pass, for reports.
	began time.Time
	took  time.Duration
}

// Forward runs a pass on the smallest width that holds its rows. It changes no sequence;
// [Engine.Commit] does. If the rows do not fit, it returns [ErrPass]. If the pass needs a longer
// context than the graphs have, the context grows first.
func (e *Engine) Forward(ctx context.Context, p Pass) (*Result, error) {
	for {
		r, need, err := e.tryForward(ctx, p)
		if r != nil || err != nil {
			return r, err
		}
		if _, err := e.reserve(ctx, need); err != nil {
			return nil, err
		}
	}
}

// tryForward returns neither a result nor an error if the context is too short. need is
// the context that the pass needs.
func (e *Engine) tryForward(ctx context.Context, pass Pass) (r *Result, need int, err error) {
	if err := e.lock(ctx); err != nil {
		return nil, 0, err
	}
	defer e.unlock()
	e.last = nil // the graphs overwrite its keys and values
	b, err := e.newBatch(pass, 0)
	if err != nil {
		return nil, 0, err
	}
	if b.length > e.graphs.Load().context {
		return nil, b.length, nil
	}
	r, err = e.forward(ctx, b)
	return r, 0, err
}

// Commit appends rows of the last pass to a sequence. The first row's parent is [Root], and each
// other row's parent is the row before it. Each sequence of a pass can be committed once. For other
// rows it returns [ErrPass] and changes nothing.
func (e *Engine) Commit(sequence int, rows []int) error {
	if err := e.lock(context.Background()); err != nil {
		return err
	}
	defer e.unlock()
	return e.commit(sequence, rows)
}

func (e *Engine) commit(sequence int, rows []int) error {
	if e.last == nil {
		return fmt.Errorf("engine: %w: no pass to commit", ErrPass)
	}
	base, ok := e.last.tree.Bases[sequence]
	if !ok || !e.last.open[sequence] {
		return fmt.Errorf("engine: %w: the last pass has no rows of sequence %d that can be committed", ErrPass, sequence)
	}
	if err := e.last.checkPath(sequence, rows); err != nil {
		return err
	}
	e.last.open[sequence] = false
	if !e.last.inSlots {
		e.graphs.Load().memory.Cache().Commit(sequence, base, rows)
	}
	tokens := make([]int32, len(rows))
	for i, row := range rows {
		tokens[i] = e.last.rows[row].Token
	}
	e.sequences.Extend(sequence, tokens)
	return nil
}

// Truncate drops a sequence's tokens from length on and clears their slots. A sequence
// that does not exist, or that is shorter, is [ErrPass].
func (e *Engine) Truncate(sequence, length int) error {
	if err := e.lock(context.Background()); err != nil {
		return err
	}
	defer e.unlock()
	if sequence < 0 || sequence >= e.options.Sequences || length < 0 || length > e.sequences.Len(sequence) {
		return fmt.Errorf("engine: %w: truncate sequence %d to %d tokens", ErrPass, sequence, length)
	}
	e.truncate(sequence, length)
	return nil
}

func (e *Engine) truncate(sequence, length int) {
	old := e.sequences.Len(sequence)
	if length == old {
		return
	}
	if e.last != nil {
		e.last.open[sequence] = false
	}
	e.graphs.Load().memory.Cache().Clear(sequence, length, old)
	e.sequences.Cut(sequence, length)
}

// Tokens returns a copy of a sequence's committed tokens.
func (e *Engine) Tokens(sequence int) []int32 { return e.sequences.Tokens(sequence) }

// ReadCache appends the keys and values of a sequence's committed tokens to dst: per
// layer the keys and then the values, each [KVHeads, tokens, HeadDim] in the recipe's
// cache type. They do not depend on widths, blocks, the context or other sequences. A
// sequence that does not exist is [ErrPass].
func (e *Engine) ReadCache(dst []byte, sequence int) ([]byte, error) {
	if err := e.lock(context.Background()); err != nil {
		return dst, err
	}
	defer e.unlock()
	if sequence < 0 || sequence >= e.options.Sequences {
		return dst, fmt.Errorf("engine: %w: read sequence=%d: want 0..%d", ErrPass, sequence, e.options.Sequences-1)
	}
	return e.graphs.Load().memory.Cache().Read(dst, sequence, e.sequences.Len(sequence)), nil
}
