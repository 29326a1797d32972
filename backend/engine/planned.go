package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanReport tells what came of a plan, until the request's end.
type PlanReport struct {
	// Name and Reason are the plan's, Costs says what it went by.
	Name, Reason, Costs string
	// Spare tells that a block's second graph had a place beside the first.
	Spare bool
	// Switches counts blocks whose graph was exchanged.
	Switches int
	// Timeline is what was done; its times count from the prompt's start.
	// Predicted is what was foretold, and Problem what both are reckoned by.
	Timeline  graphswap.Timeline
	Predicted *graphswap.Timeline
	Problem   *graphswap.Problem
	// Failed is why blocks are left as they were, or empty.
	Failed string
}

// planPrompt begins to carry out a plan for the prompt's tokens that are to be
// computed. It returns nil where graphs stay, be it because their loads failed
// too often, or are exchanged for another request at the moment.
func (e *Engine) planPrompt(ctx context.Context, g *generation, cached int, tokens []int32) (*execution, error) {
	if e.lanes == nil || e.options.Exact { // then the prompt's length alone says on which graphs it is computed
		return nil, nil
	}
	e.idle.prompted(len(tokens))
	if err := e.lanes.awake(ctx); err != nil {
		return nil, err
	}
	if !e.lanes.idle() || g.request.Plan == nil && e.lanes.gaveUp() {
		return nil, nil
	}
	j, f, planner := &g.job, e.family.Load(), e.planner
	if g.request.Plan != nil {
		planner = g.request.foretold
	}
	output, accept := e.expect(&g.request)
	told, err := planner(promptShape{
		tokens: len(tokens), cached: cached, allLogits: j.everyRow, before: e.lanes.residency(f), rows: e.options.Rows,
		output: output, accept: accept, alone: e.sequences.busy() < 2,
	})
	if err != nil && g.request.Plan != nil {
		return nil, err
	}
	if err != nil {
		e.options.Logger.Warn("no plan for the prompt: graphs stay as they are", "reason", err)
		return nil, nil
	}
	x := e.newExecution(f, told, j)
	if !e.lanes.begin(x, e.inVirtualTime()) {
		return nil, nil
	}
	return x, nil
}

// foretold is the plan that the request brings.
func (r *Request) foretold(s promptShape) (*foretold, error) {
	if err := r.Plan.Validate(); err != nil {
		return nil, err
	}
	rows := 0
	for _, n := range r.Plan.Chunks {
		rows += n
	}
	if rows != s.tokens || !slices.Equal(r.Plan.Before, s.before) || r.Plan.Rows1 != s.rows[0] || r.Plan.Rows2 != s.rows[1] {
		return nil, fmt.Errorf("engine: %w: a plan for %d tokens that finds %v, there are %d and %v", ErrRequest, rows, r.Plan.Before, s.tokens, s.before)
	}
	line, err := graphswap.Simulate(r.Plan, r.Problem)
	return &foretold{plan: r.Plan, problem: r.Problem, line: line}, err
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
		return w.compute(ctx, b, b.fitting(w.pl.width))
	}
	came := time.Now()
	form, x, began, err := e.lanes.enter(ctx, b, w.pl)
	if err != nil {
		e.lost = e.lost || errors.Is(err, errNotResident)
		return err
	}
	defer e.lanes.leave()
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

// report is what the execution has done so far. Once nothing is left of it, the
// engine learns how far what was foretold was off.
func (e *Engine) planReport(x *execution) *PlanReport {
	if x == nil {
		return nil
	}
	r := &PlanReport{
		Name: x.plan.Name, Reason: e.planReason(x), Costs: e.costs.source(), Spare: x.plan.Spare,
		Timeline: x.log.snapshot(x.told.problem), Predicted: x.told.line, Problem: x.told.problem,
	}
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
	if x.over && x.err == nil && x.ended && !x.learned && r.Predicted != nil && r.Timeline.Check(r.Problem) == nil {
		x.learned = true
		e.costs.correct(&r.Timeline, r.Predicted)
	}
	return r
}

// planReason says why the plan is what it is, and what it went by.
func (e *Engine) planReason(x *execution) string {
	reason := cmp.Or(e.decision, x.plan.Reason)
	if x.told.beside {
		why := "chunks go through all blocks one by one, because other requests are under way whose rows can then go along"
		if reason == "" { // else the plan is a baseline
			reason = why
		} else {
			reason += "; " + why
		}
	}
	if line := x.told.line; reason == "" && line != nil {
		reason = line.Reason(x.told.problem)
	}
	if source := e.costs.source(); source != "" && x.plan.Reason == "" { // else the request brought its own
		reason += "; planned " + source
	}
	return reason
}

// PlanDone waits until nothing is left of the last request's plan, whose loads
// may go on while tokens are generated, and says what came of it. It returns
// nil where there was none.
func (e *Engine) PlanDone(ctx context.Context) (*PlanReport, error) {
	if e.lanes == nil {
		return nil, nil
	}
	e.lanes.mu.Lock()
	x := e.lanes.on
	if x != nil && x.idle {
		x = x.before
	}
	e.lanes.mu.Unlock()
	if x == nil {
		return nil, nil
	}
	select {
	case <-x.done:
		return e.planReport(x), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("engine: wait for loads: %w", ctx.Err())
	}
}
