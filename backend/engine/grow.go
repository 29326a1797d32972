package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// Growth describes one change of the engine to the graphs of a longer context tier.
type Growth struct {
	// From and To are the old and the new context, in tokens of one sequence.
	From, To int
	// Took is the duration of the whole change. Moved is the part of the time in which
	// no pass could run. Moved includes the copy of keys and values and, if the device
	// cannot hold two graph sets, also the loads.
	Took, Moved time.Duration
	// PeakBytes is the largest total size of programs, KV cache and other buffers
	// during the change.
	PeakBytes int64
}

// firstContext is the default of [Options].FirstContext: enough for a question and its
// answer.
const firstContext = 512

// contextFor returns the shortest context tier that holds n tokens. Tiers double from
// FirstContext up to Context.
func (o *resolved) contextFor(n int) int {
	c := o.FirstContext
	for c < n && c < o.Context {
		c *= 2
	}
	return min(c, o.Context)
}

// reserve changes to a longer context tier if the current graphs cannot hold sequences
// of n tokens. reserve returns a description of the change, or nil if none was needed.
// If reserve fails, the engine keeps its old graphs.
//
// Passes of other requests run while the new graphs are compiled and loaded.
// Passes of other requests wait only while keys and values are copied.
func (e *Engine) reserve(ctx context.Context, n int) (*Growth, error) {
	if n <= e.graphs.Load().context {
		return nil, nil
	}
	select {
	case e.growing <- struct{}{}:
		defer func() { <-e.growing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("engine: wait until the context is longer: %w", ctx.Err())
	}
	old := e.graphs.Load()
	if n <= old.context { // another request has lengthened the context in the meantime
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !e.closing.setCancel(cancel) {
		return nil, fmt.Errorf("engine: %w", backend.ErrClosed)
	}
	defer e.closing.setCancel(nil)
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

// grow loads the graph set of a longer context tier. The old set stays loaded until
// then, unless the device has no memory for both.
func (e *Engine) grow(ctx context.Context, old *graphSet, g *Growth) error {
	next, err := e.newGraphSet(g.To)
	if err != nil {
		return err
	}
	if e.switcher != nil {
		next.start = e.switcher.Resident(old.Set)
	}
	before := e.Memory().total()
	err = e.loadBlocks(ctx, next)
	switch {
	case err == nil:
		g.PeakBytes = before + next.sizeBytes()
		err = e.switchGraphSet(ctx, old, next, g, func() error { return nil })
	case errors.Is(err, backend.ErrNoMemory):
		e.options.Logger.Warn("the device has no memory for two sets of graphs: all requests wait until the longer context is loaded", "reason", err)
		err = e.switchGraphSet(ctx, old, next, g, func() error { return e.switchInPlace(ctx, old, next, g) })
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	if err := old.close(); err != nil { // do not fail: the new graphs work, although the old ones keep their memory
		e.options.Logger.Warn("could not free the memory of the shorter context", "reason", err)
	}
	return nil
}

// switchGraphSet makes next the engine's graph set, between two passes. switchGraphSet
// calls prepare before that.
func (e *Engine) switchGraphSet(ctx context.Context, old, next *graphSet, g *Growth, prepare func() error) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	begin := time.Now()
	if e.switcher != nil {
		e.switcher.Stop()
	}
	if err := prepare(); err != nil {
		return err
	}
	next.memory.Cache().CopyFrom(old.memory.Cache(), e.sequences.Lengths())
	e.last = nil // the last pass cannot be committed: its rows are in the old set's memory
	e.graphs.Store(next)
	e.passTimes.Move()
	e.hostTimes.Move()
	g.Moved = time.Since(begin)
	return nil
}

// switchInPlace frees the programs of the old graph set and then loads those of the new
// one. If a load fails, switchInPlace loads the old programs again, even if ctx is
// done. If that fails too, the engine has no graphs and every later request fails.
func (e *Engine) switchInPlace(ctx context.Context, old, next *graphSet, g *Growth) error {
	err := old.Unload()
	if err == nil {
		err = e.loadBlocks(ctx, next)
	}
	if err == nil {
		g.PeakBytes = e.Memory().total() + next.sizeBytes()
		return nil
	}
	if again := e.loadBlocks(context.WithoutCancel(ctx), old); again != nil {
		e.broken = fmt.Errorf("no graphs are loaded, so load the model again: %w", errors.Join(err, again))
		return e.broken
	}
	return err
}
