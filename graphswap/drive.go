package graphswap

import (
	"fmt"
	"math"
	"slices"
)

// Runner carries a plan out, or computes how long that takes. Times are milliseconds,
// without slow-downs by concurrent loads: [Drive] adds them.
type Runner interface {
	// Run runs one execute of a step, number run, on the given graph.
	Run(step, run int, g Variant) (ms float64, err error)
	// Load loads a graph. Without a spare slot it frees the block's other graph
	// first.
	Load(load int) (ms float64, err error)
	// Free frees the graph that a load has replaced, if there is a spare slot.
	Free(load int) error
}

// Drive runs a plan on one event clock. It calls the runner in the order in which
// tasks start, and records the time of each. With a runner that only computes times it
// is the simulator; with one that executes, it is an execution in virtual time.
func Drive(plan *Plan, problem *Problem, r Runner) (*Timeline, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	d := &driver{
		plan: plan, problem: problem, runner: r,
		timeline: &Timeline{Plan: plan, Tasks: make([]Task, 0, len(plan.Steps)+len(plan.Loads))},
		resident: slices.Clone(plan.Before), ends: make([]float64, len(plan.Steps)), running: -1,
	}
	for i := range plan.Steps {
		if err := d.step(i); err != nil {
			return nil, err
		}
	}
	d.timeline.PrefillMs = d.now
	if err := d.settle(math.Inf(1)); err != nil {
		return nil, err
	}
	d.timeline.Sum(problem)
	return d.timeline, nil
}

// driver is the state of a run: the work of the lanes, and what is resident.
type driver struct {
	plan     *Plan
	problem  *Problem
	runner   Runner
	timeline *Timeline

	now      float64 // the NPU is free from this time on
	resident []Variant
	ends     []float64 // of the steps that ran
	done     int       // number of steps that ran

	next    int     // the next of Loads
	loading bool    // the load before it runs, or has not become resident yet
	loadEnd float64 // the end of that load
	free    float64 // loader and spare slot are free from this time on

	running    int     // block of the running step, -1 for none
	stepBlock  int     // block of the last step that ended
	stepBegins float64 // start of that step: it may have run when a load ended
}

// step waits for the graph of step i and runs the step.
func (d *driver) step(i int) error {
	s, from := d.plan.Steps[i], d.now
	if err := d.settle(d.now); err != nil {
		return err
	}
	for d.waits(i) {
		if !d.loading {
			return d.plan.invalid("step %d waits for a graph that no load brings in", i)
		}
		d.now = d.loadEnd
		if err := d.settle(d.now); err != nil {
			return err
		}
	}
	g := s.Variant & d.resident[s.Block]
	if g == Both {
		g = Decode
	}
	tokens := d.plan.Chunks[s.Chunk]
	task := Task{
		Lane: NPU, Kind: Run, StartMs: d.now, Block: s.Block, Chunk: s.Chunk, Variant: g, Index: i,
		Runs: executes(d.plan.DecodeRows, tokens, g), Valid: tokens, WaitMs: d.now - from,
	}
	d.running = s.Block
	rows := d.plan.PrefillRows
	if g == Decode {
		rows = d.plan.DecodeRows
	}
	task.Rows = rows * task.Runs
	for run := range task.Runs {
		if err := d.settle(d.now); err != nil {
			return err
		}
		ms, err := d.runner.Run(i, run, g)
		if err != nil {
			return err
		}
		if d.loading && d.loadEnd > d.now {
			ms *= d.problem.slowdown()
		}
		d.now += ms
	}
	task.EndMs, d.ends[i] = d.now, d.now
	d.running, d.stepBlock, d.stepBegins, d.done = -1, s.Block, task.StartMs, i+1
	d.timeline.Tasks = append(d.timeline.Tasks, task)
	return d.settle(d.now)
}

// waits reports whether a step must wait: its graph is missing, or a load that may
// start already will free it.
func (d *driver) waits(i int) bool {
	s := d.plan.Steps[i]
	if s.Variant&d.resident[s.Block] == 0 {
		return true
	}
	if d.plan.Spare {
		return false
	}
	// A load that may start before this step comes first, even if the loader is
	// still busy with another one: the step is planned on the loaded graph.
	for j := d.next; j < len(d.plan.Loads); j++ {
		if l := d.plan.Loads[j]; l.Block == s.Block && l.After < i {
			return true
		}
	}
	return false
}

// settle ends and starts loads up to a time, in the order of their times.
func (d *driver) settle(now float64) error {
	for {
		if d.loading {
			if d.loadEnd > now || !d.finish() {
				return nil
			}
			if err := d.retire(); err != nil {
				return err
			}
		}
		if d.next == len(d.plan.Loads) {
			return nil
		}
		l := d.plan.Loads[d.next]
		if l.After >= d.done {
			return nil
		}
		start := d.free
		if l.After >= 0 {
			start = max(start, d.ends[l.After])
		}
		if start > now {
			return nil
		}
		if err := d.start(l, start); err != nil {
			return err
		}
	}
}

// start starts a load at a time.
func (d *driver) start(l Load, at float64) error {
	if !d.plan.Spare {
		if d.running == l.Block {
			return d.plan.invalid("load %d starts while its block runs", d.next)
		}
		d.resident[l.Block] = None
	}
	ms, err := d.runner.Load(d.next)
	if err != nil {
		return err
	}
	d.loading, d.loadEnd = true, at+ms
	d.timeline.Tasks = append(d.timeline.Tasks, Task{
		Lane: IO, Kind: Create, StartMs: at, EndMs: d.loadEnd, Block: l.Block, Variant: l.Variant, Index: d.next,
		Bytes: d.problem.Bytes[l.Variant-1][l.Block],
	})
	d.next++
	return nil
}

// finish reports whether the ended load's graph can become resident, and when loader
// and slot are free: with a spare slot, not before the block's running step ends.
func (d *driver) finish() bool {
	l := d.plan.Loads[d.next-1]
	if d.plan.Spare && d.running == l.Block {
		return false
	}
	d.free = d.loadEnd
	if d.plan.Spare && d.stepBlock == l.Block && d.done > 0 && d.stepBegins < d.loadEnd {
		d.free = max(d.free, d.ends[d.done-1])
	}
	return true
}

// retire makes the loaded graph resident and frees the graph that it replaces.
func (d *driver) retire() error {
	l := d.plan.Loads[d.next-1]
	old := d.resident[l.Block]
	d.resident[l.Block], d.loading = l.Variant, false
	if !d.plan.Spare || old == None {
		return nil
	}
	return d.runner.Free(d.next - 1)
}

// Simulate returns a plan's timeline by the problem's costs.
func Simulate(plan *Plan, problem *Problem) (*Timeline, error) {
	if plan.Blocks != problem.Blocks() || len(plan.Chunks) != len(problem.PrefillMs) {
		return nil, fmt.Errorf("graphswap: %w: the plan has %d blocks and %d chunks, the problem %d and %d",
			ErrPlan, plan.Blocks, len(plan.Chunks), problem.Blocks(), len(problem.PrefillMs))
	}
	line, err := Drive(plan, problem, costs{plan, problem})
	if err != nil {
		return nil, err
	}
	line.Source = Simulated
	return line, nil
}

// costs is the runner of the simulator.
type costs struct {
	plan    *Plan
	problem *Problem
}

func (c costs) Run(step, _ int, g Variant) (float64, error) {
	return c.problem.executeMs(c.plan.Steps[step], g), nil
}
func (c costs) Load(load int) (float64, error) { return c.problem.loadMs(c.plan.Loads[load]), nil }
func (c costs) Free(int) error                 { return nil }
