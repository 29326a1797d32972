package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
)

// Forward runs a pass on the smallest width that holds its rows. It changes no
// sequence: see [Engine.Commit]. Rows that do not fit are [ErrPass].
func (e *Engine) Forward(ctx context.Context, p Pass) (*Result, error) {
	var result *Result
	err := e.pass(ctx, p, func(r *Result) error {
		result = r
		return nil
	})
	return result, err
}

// pass runs a pass and then use, which may commit, before any other pass.
func (e *Engine) pass(ctx context.Context, p Pass, use func(*Result) error) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	r, err := e.forward(ctx, p)
	if err != nil {
		return err
	}
	return use(r)
}

func (e *Engine) forward(ctx context.Context, p Pass) (*Result, error) {
	e.last = nil // its keys and values are about to be overwritten
	pl, err := e.plan(p)
	if err != nil {
		return nil, err
	}
	w := e.widths[slices.IndexFunc(e.widths, func(w width) bool { return w.rows >= len(pl.rows) })]
	pl.width = w.rows
	if err := e.fillInputs(pl); err != nil {
		return nil, err
	}
	r := &Result{
		Logits:    make([][]float32, len(pl.rows)),
		ValidRows: len(pl.rows), PaddingRows: w.rows - len(pl.rows),
		Ops: make(map[backend.Lane]int64),
	}
	for _, s := range w.blocks {
		if err := e.run(ctx, s, r); err != nil {
			return nil, err
		}
	}
	if err := e.runHead(ctx, pl, len(w.blocks), r); err != nil {
		return nil, err
	}
	pl.rows = slices.Clone(pl.rows) // the caller may reuse its slice
	e.last = pl
	return r, nil
}

func (e *Engine) run(ctx context.Context, s step, r *Result) error {
	if err := s.program.Run(ctx, s.graph, s.bindings); err != nil {
		return fmt.Errorf("engine: run %s: %w", s.graph, err)
	}
	r.Ops[e.laneName] += int64(s.signature.Nodes)
	return nil
}

// fillInputs writes what the first block reads.
func (e *Engine) fillInputs(pl *plan) error {
	m := pl.width
	c, o, element := e.config, e.options, e.options.Recipe.Activations.Size()
	tokens := make([]int32, len(pl.rows))
	for i, r := range pl.rows {
		tokens[i] = r.Token
	}
	x := e.memory.x[0].bytes(m * c.Hidden * element)
	valid := len(tokens) * c.Hidden * element
	if err := e.model.Embed(x[:valid], tokens, o.Recipe); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	clear(x[valid:]) // finite, which is all that padding has to be
	positions := make([]int32, m)
	copy(positions, pl.positions)
	angles := m * c.RopeDim / 2 * element
	groups := c.Heads / c.KVHeads
	for i, v := range e.memory.views {
		in := &e.memory.viewPorts[i]
		v.Rope(in.cos.bytes(angles), in.sin.bytes(angles), positions, o.Recipe)
		mask := in.mask.bytes(groups * m * (o.slots() + m) * element)
		pl.fillMask(mask, e.hidden, v, groups, o.Context, o.slots(), element)
	}
	return nil
}

// runHead computes the logits that the rows ask for, HeadRows at a time.
func (e *Engine) runHead(ctx context.Context, pl *plan, blocks int, r *Result) error {
	var wanted []int
	for i, row := range pl.rows {
		if row.Logits {
			wanted = append(wanted, i)
		}
	}
	vocab, element := e.config.Vocab, e.options.Recipe.Activations.Size()
	e.logits = slices.Grow(e.logits[:0], len(wanted)*vocab)[:len(wanted)*vocab]
	size := e.config.Hidden * element
	from := e.memory.x[blocks%2].bytes(len(pl.rows) * size)
	to := e.memory.headX.bytes(e.options.HeadRows * size)
	for i := 0; i < len(wanted); i += e.options.HeadRows {
		part := wanted[i:min(i+e.options.HeadRows, len(wanted))]
		for j, row := range part {
			copy(to[j*size:(j+1)*size], from[row*size:])
		}
		clear(to[len(part)*size:])
		if err := e.run(ctx, e.head, r); err != nil {
			return err
		}
		logits := e.logits[i*vocab : (i+len(part))*vocab]
		if err := decodeFloats(logits, e.memory.logits.bytes(len(logits)*element), e.options.Recipe.Activations); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		for j, row := range part {
			r.Logits[row] = logits[j*vocab : (j+1)*vocab : (j+1)*vocab]
		}
	}
	return nil
}
