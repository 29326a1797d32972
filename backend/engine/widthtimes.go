package engine

import (
	"context"
	"errors"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/residency"
)

// measureWidths prepares the time of a pass of each width, so that automatic drafts need
// not risk a slow pass to learn its time, and cuts prompts by these times. measureWidths
// runs the graphs of one block and of the head, which takes about as long as one pass of
// each width through one block. Later passes correct the times of the widths.
//
// If the device restarts meanwhile, the engine works without these times, and the first
// request loads the graphs again.
func (e *Engine) measureWidths(ctx context.Context, f *graphSet) error {
	o := &e.options
	if !o.Draft.Auto || f.shape.exact || f.shape.planned() {
		return nil
	}
	err := e.timeWidths(ctx, f)
	if errors.Is(err, backend.ErrRestarted) {
		o.Logger.Warn("the device restarted while the graphs were timed: widths are chosen without their times", "reason", err)
		e.mustReload = true
		return nil
	}
	return err
}

func (e *Engine) timeWidths(ctx context.Context, f *graphSet) error {
	s := f.shape
	heads := make(map[int]float64)
	for i, rows := range e.head.rows {
		t, err := e.timeGraph(ctx, e.head.widths[i])
		if err != nil {
			return err
		}
		heads[rows] = t.Seconds()
	}
	b := f.Blocks[0]
	share := float64(b.End-b.First) / float64(e.config.Layers)
	bodies := make(map[int]float64)
	for _, width := range s.rows {
		t, err := e.timeGraph(ctx, b.Narrowest(width).Bound())
		if err != nil {
			return err
		}
		bodies[width] = t.Seconds() / share
		verify := bodies[width]
		for left := min(width, maxDrafts+e.options.Sequences); left > 0; {
			_, rows := e.head.fitting(left)
			verify += heads[rows]
			left -= rows
		}
		s.passTimes.Prepare(width, time.Duration(verify*float64(time.Second)))
	}
	s.chunkOf = cutPrompts(s.rows, func(width int) float64 { return bodies[width] })
	return nil
}

// timeGraph returns the time of a run on the device's clock. On the host's clock it is
// the shorter one of two, because the first may wait for its pages.
func (e *Engine) timeGraph(ctx context.Context, g *residency.BoundGraph) (time.Duration, error) {
	first, err := residency.TimeRun(ctx, g, residency.DeviceTime)
	if err != nil || e.clock.simulated() {
		return first, err
	}
	second, err := residency.TimeRun(ctx, g, residency.DeviceTime)
	return min(first, second), err
}
