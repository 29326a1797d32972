package engine

import (
	"context"
	"fmt"
)

// Commit appends rows of the last pass to a sequence: the first one's parent is
// [Root], each other's the row before. Each sequence of a pass is committed
// once at most. Anything else is [ErrPass] and changes nothing.
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
	base, ok := e.last.bases[sequence]
	if !ok {
		return fmt.Errorf("engine: %w: the last pass has no rows for sequence %d, or they are out of date", ErrPass, sequence)
	}
	if err := e.last.path(sequence, rows); err != nil {
		return err
	}
	delete(e.last.bases, sequence)
	c, f := e.config, e.family.Load()
	size := c.HeadDim * e.options.Recipe.Cache.Size()
	for i := range f.memory.layers {
		if e.last.inSlots {
			break
		}
		l := &f.memory.layers[i]
		for kv := range 2 {
			fresh, width := e.last.fresh[i].of(kv)
			copyRows(l.past[kv].all(), fresh, c.KVHeads, f.slots, width, size, sequence*f.context+base, rows)
		}
	}
	tokens := make([]int32, len(rows))
	for i, row := range rows {
		tokens[i] = e.last.rows[row].Token
	}
	e.sequences.extend(sequence, tokens)
	return nil
}

// Truncate takes a sequence's tokens from length on back and clears their
// slots. A sequence or a length that is not there is [ErrPass].
func (e *Engine) Truncate(sequence, length int) error {
	if err := e.lock(context.Background()); err != nil {
		return err
	}
	defer e.unlock()
	if sequence < 0 || sequence >= e.options.Sequences || length < 0 || length > e.sequences.length(sequence) {
		return fmt.Errorf("engine: %w: truncate sequence %d to %d", ErrPass, sequence, length)
	}
	e.truncate(sequence, length)
	return nil
}

func (e *Engine) truncate(sequence, length int) {
	old := e.sequences.length(sequence)
	if length == old {
		return
	}
	if e.last != nil {
		delete(e.last.bases, sequence)
	}
	c, f := e.config, e.family.Load()
	size := c.HeadDim * e.options.Recipe.Cache.Size()
	for i := range f.memory.layers {
		for _, r := range f.memory.layers[i].past {
			past := r.bytes(r.size)
			for head := range c.KVHeads {
				at := head*f.slots + sequence*f.context
				clear(past[(at+length)*size : (at+old)*size])
			}
		}
	}
	e.sequences.cut(sequence, length)
}

// Tokens returns a copy of a sequence's committed tokens.
func (e *Engine) Tokens(sequence int) []int32 { return e.sequences.copyOf(sequence) }

// ReadCache appends the keys and values of a sequence's committed tokens to
// dst: per layer k and then v, each [KVHeads, tokens, HeadDim] in the recipe's
// cache type. Widths, blocks, the context and other sequences leave no trace in
// it. A sequence that is not there is [ErrPass].
func (e *Engine) ReadCache(dst []byte, sequence int) ([]byte, error) {
	if err := e.lock(context.Background()); err != nil {
		return dst, err
	}
	defer e.unlock()
	if sequence < 0 || sequence >= e.options.Sequences {
		return dst, fmt.Errorf("engine: %w: read sequence %d of %d", ErrPass, sequence, e.options.Sequences)
	}
	c, f := e.config, e.family.Load()
	size := c.HeadDim * e.options.Recipe.Cache.Size()
	n := e.sequences.length(sequence) * size
	for i := range f.memory.layers {
		for _, r := range f.memory.layers[i].past {
			past := r.bytes(r.size)
			for head := range c.KVHeads {
				at := (head*f.slots + sequence*f.context) * size
				dst = append(dst, past[at:at+n]...)
			}
		}
	}
	return dst, nil
}
