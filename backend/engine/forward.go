package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// Forward runs a pass on the smallest width that holds its rows. It changes no
// sequence: see [Engine.Commit]. Rows that do not fit are [ErrPass]. A pass
// that needs a longer context than the graphs have makes them grow first.
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

// tryForward returns neither result nor error when the graphs are too short:
// need is the context that they must have.
func (e *Engine) tryForward(ctx context.Context, p Pass) (r *Result, need int, err error) {
	if err := e.lock(ctx); err != nil {
		return nil, 0, err
	}
	defer e.unlock()
	e.last = nil // its keys and values are about to be overwritten
	pl, err := e.plan(p)
	if err != nil {
		return nil, 0, err
	}
	if pl.length > e.family.Load().context {
		return nil, pl.length, nil
	}
	r, err = e.forward(ctx, pl)
	return r, 0, err
}

// forward runs a plan that fits.
func (e *Engine) forward(ctx context.Context, pl *plan) (*Result, error) {
	w, err := e.begin(pl)
	if err != nil {
		return nil, err
	}
	for _, b := range w.family.blocks {
		if err := e.runBlock(ctx, w, b); err != nil {
			return nil, err
		}
	}
	return w.end(ctx)
}

// run runs a graph on the memory of a part of the pass.
func (e *Engine) run(ctx context.Context, s *step, part int, r *Result) error {
	if err := s.program.Run(ctx, s.graph, s.bindings[part]); err != nil {
		e.lost = e.lost || errors.Is(err, backend.ErrRestarted)
		return fmt.Errorf("engine: run %s: %w", s.graph, err)
	}
	if t, ok := s.program.(backend.Timed); ok && t.RunCost().Virtual {
		r.virtual += t.RunCost().Took
	}
	r.Ops[e.laneName] += int64(s.signature.Nodes)
	return nil
}
