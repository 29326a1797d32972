package engine

import (
	"context"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// inVirtualTime reports whether plans run on graphswap's clock, calls in the
// order in which they would begin: nothing can overlap that does not last.
func (e *Engine) inVirtualTime() bool { return e.lanes != nil && e.clock.Virtual }

// drive carries out a plan in virtual time, from the prompt's first token to the
// last load. The device is the plan's alone.
func (e *Engine) drive(ctx context.Context, x *execution) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	d := &driven{walk: &walk{engine: e, x: x}, ctx: ctx}
	line, err := graphswap.Drive(x.plan, x.told.problem, d)
	d.clear()
	if err == nil {
		line.Source = graphswap.Executed
		x.log.set(line)
	}
	last := false
	e.lanes.change(func() {
		x.over, x.ended, x.err = true, err == nil, err
		x.aborted = err != nil
		last = e.lanes.note(x, d.failed)
	})
	x.close(last)
	return err
}

// driven runs on one goroutine what the two lanes do otherwise.
type driven struct {
	*walk
	ctx  context.Context //nolint:containedctx // of one Drive
	way  *way
	form *form
	n    int // parts of the step
	// failed is why a load was not made, or nil.
	failed error
}

// Run computes one part of a step.
func (d *driven) Run(i, run int, g graphswap.Graph) (ms float64, err error) {
	s := d.x.plan.Steps[i]
	if run == 0 {
		var b *block
		if d.way, b, err = d.enter(s); err != nil {
			return 0, err
		}
		d.form = b.form(g)
		if d.n, err = d.way.parts(d.form); err != nil {
			return 0, err
		}
		d.way.prepare(b, d.form, d.n)
	}
	b, before := d.way.family.blocks[s.Block], d.way.result.virtual
	err = d.way.part(d.ctx, b, d.form, run, d.n)
	if r := d.way.result; run == d.n-1 {
		d.way.leave(b, d.form, d.n)
		if err == nil {
			err = d.leave(d.ctx, d.way, b)
		}
		return milliseconds(r.virtual - before), err
	} else if err != nil {
		d.way.leave(b, d.form, d.n)
	}
	return milliseconds(d.way.result.virtual - before), err
}

// Load brings a graph in; without a spare slot the block's other one goes first.
func (d *driven) Load(i int) (ms float64, err error) {
	load := d.x.plan.Loads[i]
	b := d.x.family.blocks[load.Block]
	to, from := b.form(load.Graph), b.form(graphswap.Both^load.Graph)
	s, err := d.x.replace(b, to, from)
	if err != nil {
		d.failed = err
		return 0, err
	}
	d.x.lanes.change(func() { to.step, b.latest, d.x.loaded[i] = s, load.Graph, true })
	return milliseconds(s.program.(backend.Timed).LoadCost().Took), nil
}

// Free gives up what a load beside a spare slot has replaced.
func (d *driven) Free(i int) error {
	load := d.x.plan.Loads[i]
	b := d.x.family.blocks[load.Block]
	return d.x.take(b, b.form(graphswap.Both^load.Graph))
}
