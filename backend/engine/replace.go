package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// replacement describes one change of the engine to a graph set of another shape, of
// another context tier, or both.
type replacement struct {
	// old is the graph set that the engine has. shape and context describe the next one,
	// which must hold the tokens of every sequence.
	old     *graphSet
	shape   *shape
	context int
	// mayMove, if set, decides whether the change may happen now. It is called with the
	// device lock held, when the next set is loaded or, if the device cannot hold both
	// sets, before the old one is freed.
	mayMove func() error
	// together is set if the change fails with [backend.ErrNoMemory] rather than free the
	// old set before the next one is loaded.
	together bool

	// moved is the time in which no pass could run, and peakBytes the largest total size
	// of programs, KV cache and other buffers.
	// loads is the time of the loads on the clock of a device whose calls take no time.
	moved     time.Duration
	loads     time.Duration
	peakBytes int64
}

// replaceGraphs loads the next graph set, copies keys and values between two passes, and
// frees the old set. The old set stays loaded until then, unless the device has no memory
// for both. If replaceGraphs fails, the engine keeps the old set. The caller holds growing.
func (e *Engine) replaceGraphs(ctx context.Context, r *replacement) error {
	next, err := e.newGraphSet(r.shape, r.context)
	if err != nil {
		return err
	}
	if r.shape == r.old.shape && r.shape.planned() {
		next.start = e.switcher.Resident(r.old.Set)
	}
	before := e.Memory().total()
	err = e.loadBlocks(ctx, next)
	switch {
	case err == nil:
		r.peakBytes = before + next.sizeBytes()
		err = e.moveTo(ctx, next, r, func() error { return nil })
	case errors.Is(err, backend.ErrNoMemory) && !r.together:
		e.options.Logger.Warn("the device has no memory for two sets of graphs: all requests wait until the next one is loaded", "reason", err)
		err = e.moveTo(ctx, next, r, func() error { return e.loadInPlace(ctx, next, r) })
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	if err := r.old.close(); err != nil { // do not fail: the new graphs work, although the old ones keep their memory
		e.options.Logger.Warn("could not free the memory of the graphs that were replaced", "reason", err)
	}
	return nil
}

// moveTo makes next the engine's graph set, between two passes. moveTo calls prepare
// before that.
func (e *Engine) moveTo(ctx context.Context, next *graphSet, r *replacement, prepare func() error) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	if r.mayMove != nil {
		if err := r.mayMove(); err != nil {
			return err
		}
	}
	begin := time.Now()
	e.switcher.Detach()
	defer func() { e.switcher.Attach(e.graphs.Load().Set) }()
	if err := prepare(); err != nil {
		return err
	}
	next.memory.Cache().CopyFrom(r.old.memory.Cache(), e.sequences.Lengths())
	e.last = nil // the last pass cannot be committed: its rows are in the old set's memory
	e.graphs.Store(next)
	if r.shape == r.old.shape {
		r.shape.moved()
	}
	r.moved, r.loads = time.Since(begin), next.LoadTime()
	return nil
}

// loadInPlace frees the programs of the old graph set and then loads those of the next
// one. If a load fails, loadInPlace loads the old programs again, even if ctx is done. If
// that fails too, the engine has no graphs and every later request fails.
func (e *Engine) loadInPlace(ctx context.Context, next *graphSet, r *replacement) error {
	err := r.old.Unload()
	if err == nil {
		err = e.loadBlocks(ctx, next)
	}
	if err == nil {
		r.peakBytes = e.Memory().total() + next.sizeBytes()
		return nil
	}
	if again := e.loadBlocks(context.WithoutCancel(ctx), r.old); again != nil {
		e.broken = fmt.Errorf("no graphs are loaded, so load the model again: %w", errors.Join(err, again))
		return e.broken
	}
	return err
}
