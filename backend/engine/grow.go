package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// Growth tells that the graphs were exchanged for those of a longer past.
type Growth struct {
	// From and To are the contexts, in tokens of one sequence.
	From, To int
	// Took is the whole time, Moved the part in which no pass could run: the
	// keys and values are copied then, and nothing is loaded unless the device
	// cannot hold both sets of graphs.
	Took, Moved time.Duration
	// PeakBytes is what programs, cache and other buffers took together while
	// both sets were there.
	PeakBytes int64
}

// firstContext is what graphs begin with where the options leave it open:
// enough for a question and its answer.
const firstContext = 512

// contextFor is the shortest context of the series FirstContext, twice that, …,
// Context that holds n tokens.
func (o Options) contextFor(n int) int {
	c := o.FirstContext
	for c < n && c < o.Context {
		c *= 2
	}
	return min(c, o.Context)
}

// reserve sees to it that graphs hold sequences of n tokens. It reports a
// growth, if that took one. A failed one leaves everything as it was.
//
// Graphs are compiled and loaded beside the passes of other requests; only the
// copy of keys and values holds them up.
func (e *Engine) reserve(ctx context.Context, n int) (*Growth, error) {
	if n <= e.family.Load().context {
		return nil, nil
	}
	select {
	case e.growing <- struct{}{}:
		defer func() { <-e.growing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("engine: wait for a longer context: %w", ctx.Err())
	}
	old := e.family.Load()
	if n <= old.context { // somebody else needed it, too
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !e.closing.during(cancel) {
		return nil, fmt.Errorf("engine: %w", backend.ErrClosed)
	}
	defer e.closing.during(nil)
	g := &Growth{From: old.context, To: e.options.contextFor(n)}
	begin := time.Now()
	err := e.grow(ctx, old, g)
	g.Took = time.Since(begin)
	if err != nil {
		if e.closing.begun() {
			err = errors.Join(backend.ErrClosed, err)
		}
		return nil, fmt.Errorf("engine: the context could not grow from %d to %d tokens: %w", g.From, g.To, err)
	}
	e.options.Logger.Info("context grown", "from", g.From, "to", g.To,
		"seconds", g.Took.Seconds(), "held_up_seconds", g.Moved.Seconds(), "peak_bytes", g.PeakBytes)
	return g, nil
}

// grow opens the longer family beside the old one, or in its place where the
// device has no memory for both.
func (e *Engine) grow(ctx context.Context, old *family, g *Growth) error {
	next, err := e.newFamily(g.To)
	if err != nil {
		return err
	}
	if e.lanes != nil {
		next.start = e.lanes.residency(old)
	}
	before := e.Memory().total()
	err = e.loadFamily(ctx, next)
	switch {
	case err == nil:
		g.PeakBytes = before + next.sizeBytes()
		err = e.exchange(ctx, old, next, g, func() error { return nil })
	case errors.Is(err, backend.ErrNoMemory):
		e.options.Logger.Warn("no room for two sets of graphs: requests wait while the context grows", "reason", err)
		err = e.exchange(ctx, old, next, g, func() error { return e.replace(ctx, old, next, g) })
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	if err := old.close(); err != nil { // the new one is complete
		e.options.Logger.Warn("memory of the shorter context is not given back", "reason", err)
	}
	return nil
}

// exchange makes next the family once prepare is done, between two passes.
func (e *Engine) exchange(ctx context.Context, old, next *family, g *Growth, prepare func() error) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	begin := time.Now()
	if e.lanes != nil {
		e.lanes.stop()
	}
	if err := prepare(); err != nil {
		return err
	}
	next.copyFrom(old, e.sequences, e.config.KVHeads, e.config.HeadDim*e.options.Recipe.Cache.Size())
	e.last = nil // its rows lie in the old memory
	e.family.Store(next)
	g.Moved = time.Since(begin)
	return nil
}

// replace frees the old programs, loads the new ones, and brings the old ones
// back if that fails, cancelled or not. An engine that has neither is broken.
func (e *Engine) replace(ctx context.Context, old, next *family, g *Growth) error {
	err := old.unload()
	if err == nil {
		err = e.loadFamily(ctx, next)
	}
	if err == nil {
		g.PeakBytes = e.Memory().total() + next.sizeBytes()
		return nil
	}
	if again := e.loadFamily(context.WithoutCancel(ctx), old); again != nil {
		e.broken = fmt.Errorf("the graphs are lost, the model must be loaded again: %w", errors.Join(err, again))
		return e.broken
	}
	return err
}

// loadFamily loads the graphs of the blocks.
func (e *Engine) loadFamily(ctx context.Context, f *family) error {
	sets, err := writeBlocks(e.model, e.options, f.slots)
	if err != nil {
		return err
	}
	l := newLoader(e.dev, e.model.Digest(), e.options, f.slots, sets)
	l.layers = e.config.Layers
	return f.load(ctx, l, sets, e.options, e.config.Layers)
}
