package engine

import (
	"context"
	"errors"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanReport tells what came of a plan, until the request's end.
type PlanReport struct {
	// Name and Reason are the plan's.
	Name, Reason string
	// Spare tells that a block's second graph had a place beside the first.
	Spare bool
	// Switches counts blocks whose graph was exchanged.
	Switches int
	// Timeline is what was done; its times count from the prompt's start.
	Timeline graphswap.Timeline
	// Failed is why blocks are left as they were, or empty.
	Failed string
}

// promptShape is what a plan is made for.
type promptShape struct {
	tokens, cached int // to be computed, and before them
	allLogits      bool
	before         []graphswap.Graph // resident, by block
	context        int
}

// planPrompt begins to carry out a plan for the prompt's tokens that are to be
// computed. It returns nil where graphs stay, or are exchanged for another
// request at the moment.
func (e *Engine) planPrompt(j *job, cached int, tokens []int32) *execution {
	if e.lanes == nil || !e.lanes.idle() {
		return nil
	}
	f := e.family.Load()
	plan, err := e.planner(promptShape{
		tokens: len(tokens), cached: cached, allLogits: j.everyRow, before: e.lanes.residency(f), context: f.context,
	})
	if err != nil {
		e.options.Logger.Warn("no plan for the prompt: graphs stay as they are", "reason", err)
		return nil
	}
	x := e.newExecution(f, plan, j)
	if !e.lanes.begin(x) {
		return nil
	}
	return x
}

// planned returns the execution to whose prompt a pass belongs, or nil.
func (l *lanes) planned(shares []share) *execution {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.on
	if x == nil || x.ended || x.aborted {
		return nil
	}
	for _, s := range shares {
		if s.job == x.job {
			return x
		}
	}
	return nil
}

// runBlock computes the pass's rows through one block, on the form that the plan
// wants or that there is.
func (e *Engine) runBlock(ctx context.Context, w *way, b *block) error {
	if e.lanes == nil {
		return w.compute(ctx, b, b.fitting(len(w.pl.rows)))
	}
	came := time.Now()
	form, x, err := e.lanes.enter(ctx, b, w.pl)
	if err != nil {
		e.lost = e.lost || errors.Is(err, errNotResident)
		return err
	}
	defer e.lanes.leave()
	began := time.Now()
	if err := w.compute(ctx, b, form); err != nil {
		return err
	}
	if w.pl.chunk != unplanned {
		x.ran(b, form, w.pl, came, began)
	}
	return nil
}

// ran writes down a step of the plan and lets loads begin that waited for it.
func (x *execution) ran(b *block, f *form, pl *plan, came, began time.Time) {
	g := graphswap.G1
	if f == b.form(graphswap.G2) {
		g = graphswap.G2
	}
	n := (len(pl.rows) + f.rows - 1) / f.rows
	task := graphswap.Task{
		Lane: graphswap.NPU, Kind: graphswap.Run, StartMs: x.log.at(began), EndMs: x.log.now(), Block: b.index, Graph: g, Index: -1,
		Chunk: pl.chunk, Runs: n, Rows: n * f.rows, Valid: len(pl.rows), WaitMs: milliseconds(began.Sub(came)),
	}
	x.lanes.change(func() {
		if i, ok := x.at[graphswap.Step{Chunk: pl.chunk, Block: b.index}]; ok {
			task.Index = i
			x.steps = max(x.steps, i+1)
		}
	})
	x.log.add(task)
}

// report is what the execution has done so far.
func (x *execution) report() *PlanReport {
	if x == nil {
		return nil
	}
	r := &PlanReport{Name: x.plan.Name, Reason: x.plan.Reason, Spare: x.plan.Spare, Timeline: x.log.snapshot()}
	x.lanes.mu.Lock()
	defer x.lanes.mu.Unlock()
	for _, loaded := range x.loaded {
		if loaded {
			r.Switches++
		}
	}
	if x.err != nil {
		r.Failed = x.err.Error()
	}
	return r
}
