package graphswap

import (
	"fmt"
	"math"
	"slices"
)

// Runner does what a plan says, or works out how long it would take. Times are
// milliseconds, slow-downs by concurrent loads left out: [Drive] adds them.
type Runner interface {
	// Run is one execute of a step, the run-th, on the given graph.
	Run(step, run int, g Graph) (ms float64, err error)
	// Load creates a load's graph. Without a spare slot it frees the block's
	// other graph first.
	Load(load int) (ms float64, err error)
	// Free releases the graph that a load beside a spare slot has replaced.
	Free(load int) error
}

// Drive runs a plan on one event clock: it calls the runner in the order in
// which things start and writes down when each would be. It is the simulator,
// and with a runner that really executes it is an execution in virtual time.
func Drive(plan *Plan, problem *Problem, r Runner) (*Timeline, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	d := &driver{
		plan: plan, problem: problem, runner: r,
		line:     &Timeline{Plan: plan, Tasks: make([]Task, 0, len(plan.Steps)+len(plan.Loads))},
		resident: slices.Clone(plan.Before), ends: make([]float64, len(plan.Steps)), running: -1,
	}
	for i := range plan.Steps {
		if err := d.step(i); err != nil {
			return nil, err
		}
	}
	d.line.PrefillMs = d.now
	if err := d.settle(math.Inf(1)); err != nil {
		return nil, err
	}
	d.line.Sum(problem)
	return d.line, nil
}

// driver is a run's state: what the lanes do and what is resident.
type driver struct {
	plan    *Plan
	problem *Problem
	runner  Runner
	line    *Timeline

	now      float64 // the NPU is free from here on
	resident []Graph
	ends     []float64 // per step that ran
	done     int       // steps that ran

	next    int     // of Loads
	loading bool    // the load before next runs, or waits for its slot
	loadEnd float64 // its end
	free    float64 // the loader, and the slot, are free from here on

	running    int     // block of the step under way, -1 for none
	stepBlock  int     // of the last step that ended,
	stepBegins float64 // its start: it may have been running when a load ended
}

// step waits for its graph and runs.
func (d *driver) step(i int) error {
	s, from := d.plan.Steps[i], d.now
	if err := d.settle(d.now); err != nil {
		return err
	}
	for d.waits(i) {
		if !d.loading {
			return d.plan.bad("step %d waits for a graph that nobody loads", i)
		}
		d.now = d.loadEnd
		if err := d.settle(d.now); err != nil {
			return err
		}
	}
	g := s.Graph & d.resident[s.Block]
	if g == Both {
		g = G2
	}
	tokens := d.plan.Chunks[s.Chunk]
	task := Task{
		Lane: NPU, Kind: Run, StartMs: d.now, Block: s.Block, Chunk: s.Chunk, Graph: g, Index: i,
		Runs: runs(d.plan.Rows2, tokens, g), Valid: tokens, WaitMs: d.now - from,
	}
	d.running = s.Block
	rows := d.plan.Rows1
	if g == G2 {
		rows = d.plan.Rows2
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
			ms *= d.problem.slow()
		}
		d.now += ms
	}
	task.EndMs, d.ends[i] = d.now, d.now
	d.running, d.stepBlock, d.stepBegins, d.done = -1, s.Block, task.StartMs, i+1
	d.line.Tasks = append(d.line.Tasks, task)
	return d.settle(d.now)
}

// waits says whether a step's graph is missing, or about to be freed by a load
// that has been released.
func (d *driver) waits(i int) bool {
	s := d.plan.Steps[i]
	if s.Graph&d.resident[s.Block] == 0 {
		return true
	}
	if d.plan.Spare {
		return false
	}
	// A load that was released before this step comes first, even when the
	// loader is still busy with another: the step is planned on its graph.
	for j := d.next; j < len(d.plan.Loads); j++ {
		if l := d.plan.Loads[j]; l.Block == s.Block && l.After < i {
			return true
		}
	}
	return false
}

// settle ends and starts loads up to a moment, in the order of time.
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

func (d *driver) start(l Load, at float64) error {
	if !d.plan.Spare {
		if d.running == l.Block {
			return d.plan.bad("load %d begins while its block runs", d.next)
		}
		d.resident[l.Block] = None
	}
	ms, err := d.runner.Load(d.next)
	if err != nil {
		return err
	}
	d.loading, d.loadEnd = true, at+ms
	d.line.Tasks = append(d.line.Tasks, Task{
		Lane: IO, Kind: Create, StartMs: at, EndMs: d.loadEnd, Block: l.Block, Graph: l.Graph, Index: d.next,
		Bytes: d.problem.Bytes[l.Graph-1][l.Block],
	})
	d.next++
	return nil
}

// finish makes a loaded graph the resident one; not while its block runs on the
// graph that it replaces.
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

// retire frees what the finished load has replaced.
func (d *driver) retire() error {
	l := d.plan.Loads[d.next-1]
	old := d.resident[l.Block]
	d.resident[l.Block], d.loading = l.Graph, false
	if !d.plan.Spare || old == None {
		return nil
	}
	return d.runner.Free(d.next - 1)
}

// Simulate foretells a plan's timeline.
func Simulate(plan *Plan, problem *Problem) (*Timeline, error) {
	if plan.Blocks != problem.Blocks() || len(plan.Chunks) != len(problem.P) {
		return nil, fmt.Errorf("graphswap: %w: a plan of %d blocks and %d chunks for a problem of %d and %d",
			ErrPlan, plan.Blocks, len(plan.Chunks), problem.Blocks(), len(problem.P))
	}
	line, err := Drive(plan, problem, costs{plan, problem})
	if err != nil {
		return nil, err
	}
	line.Source = Simulated
	return line, nil
}

// costs is the runner that only knows how long things take.
type costs struct {
	plan    *Plan
	problem *Problem
}

func (c costs) Run(step, _ int, g Graph) (float64, error) {
	return c.problem.run(c.plan.Steps[step], g), nil
}
func (c costs) Load(load int) (float64, error) { return c.problem.load(c.plan.Loads[load]), nil }
func (c costs) Free(int) error                 { return nil }
