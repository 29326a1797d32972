package graphswap

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Sum fills in what follows from the tasks: the ends, the waits, the totals.
// Whoever wrote the tasks down calls it once.
func (t *Timeline) Sum(p *Problem) {
	t.inOrder()
	t.PrefillMs, t.SwitchEndMs, t.StallMs, t.NPUBusyMs, t.IOBytes = 0, 0, 0, 0, 0
	for _, task := range t.Tasks {
		switch {
		case task.Kind == Run:
			t.PrefillMs = max(t.PrefillMs, task.EndMs)
			t.StallMs += task.WaitMs
			t.NPUBusyMs += task.EndMs - task.StartMs
		case task.Kind == Create:
			t.SwitchEndMs = max(t.SwitchEndMs, task.EndMs)
			t.IOBytes += task.Bytes
		}
	}
	t.SwitchEndMs = max(t.SwitchEndMs, t.PrefillMs)
	t.ExposedMs = t.SwitchEndMs - p.Plain()
	t.FirstPassMs = t.firstPass(p)
	t.remember(p)
}

// SumResident is Sum for graphs that all stay: nothing is loaded, and memory is
// what it is.
func (t *Timeline) SumResident(bytes int64) {
	*t = Timeline{Source: t.Source, Kind: t.Kind, Plan: t.Plan, Tasks: t.Tasks, Memory: []MemoryPoint{{0, bytes}}, PeakBytes: bytes}
	t.inOrder()
	for _, task := range t.Tasks {
		if task.Kind == Run {
			t.PrefillMs = max(t.PrefillMs, task.EndMs)
			t.NPUBusyMs += task.EndMs - task.StartMs
		}
	}
	t.SwitchEndMs = t.PrefillMs
}

func (t *Timeline) inOrder() {
	slices.SortStableFunc(t.Tasks, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.Lane, b.Lane))
	})
}

// remember writes the memory line: a load takes its bytes when it starts, and
// the graph that it replaces gives its own back then, or, beside a spare slot,
// when the load has ended and the block's running execute too.
func (t *Timeline) remember(p *Problem) {
	resident := slices.Clone(t.Plan.Before)
	now := p.HostBytes + p.SessionBytes
	for b, g := range resident {
		now += p.bytes(b, g)
	}
	t.Memory, t.PeakBytes = []MemoryPoint{{0, now}}, now
	change := func(at float64, bytes int64) {
		now += bytes
		t.Memory, t.PeakBytes = append(t.Memory, MemoryPoint{at, now}), max(t.PeakBytes, now)
	}
	for _, load := range t.Tasks {
		if load.Kind != Create {
			continue
		}
		old := p.bytes(load.Block, resident[load.Block])
		resident[load.Block] = load.Graph
		if !t.Plan.Spare {
			change(load.StartMs, load.Bytes-old)
			continue
		}
		change(load.StartMs, load.Bytes)
		change(t.released(load), -old)
	}
}

// released is when the graph that a load replaces beside a spare slot goes.
func (t *Timeline) released(load Task) float64 {
	for _, task := range t.Tasks {
		if task.Kind == Run && task.Block == load.Block && task.StartMs < load.EndMs && task.EndMs > load.EndMs {
			return task.EndMs
		}
	}
	return load.EndMs
}

// firstPass is the end of a decode pass that begins after the prefill and enters
// each block as soon as its graph is there.
func (t *Timeline) firstPass(p *Problem) float64 {
	ready := make([]float64, t.Plan.Blocks)
	for _, task := range t.Tasks {
		if task.Kind == Create {
			ready[task.Block] = max(ready[task.Block], task.EndMs)
		}
	}
	at := t.PrefillMs
	for b, g := range t.Plan.After {
		times := p.Verify[1]
		if g&G2 == 0 {
			times = p.Verify[0]
		}
		if b < len(times) {
			at = max(at, ready[b]) + times[b]
		}
	}
	return at
}

// slack is how far two times may disagree: rounding of sums, and of the clocks
// that write an executed timeline.
const slack = 1e-6

// Check reports the first invariant that a timeline breaks: a lane with two
// tasks at once, a step before what it needs, a block that runs while its graph
// is exchanged or without it, a load before its time, more memory than allowed,
// something that ran twice or not at all, or a total that is not the sum.
func (t *Timeline) Check(p *Problem) error {
	if t.Plan == nil {
		return fmt.Errorf("graphswap: %w: it has no plan", ErrTimeline)
	}
	if err := t.Plan.Validate(); err != nil {
		return err
	}
	c := checker{line: t, plan: t.Plan, problem: p}
	for _, check := range []func() error{c.tasks, c.lanes, c.order, c.loads, c.residency, c.memory, c.totals} {
		if err := check(); err != nil {
			return fmt.Errorf("graphswap: %w of %q: %w", ErrTimeline, t.Plan.Name, err)
		}
	}
	return nil
}

type checker struct {
	line    *Timeline
	plan    *Plan
	problem *Problem
	steps   []Task // by the plan's index
	created []Task
}

// tasks sorts the tasks by what they are; each step and load exactly once.
func (c *checker) tasks() error {
	c.steps, c.created = make([]Task, len(c.plan.Steps)), make([]Task, len(c.plan.Loads))
	seen := map[[2]int]bool{}
	for _, t := range c.line.Tasks {
		if !(t.StartMs >= 0 && t.EndMs >= t.StartMs && !math.IsInf(t.EndMs, 1)) {
			return fmt.Errorf("a task from %v to %v", t.StartMs, t.EndMs)
		}
		into := c.steps
		switch t.Kind {
		case Run:
		case Create:
			into = c.created
		default:
			continue
		}
		key := [2]int{int(t.Lane), t.Index}
		if t.Index < 0 || t.Index >= len(into) || seen[key] {
			return fmt.Errorf("%s %d is not in the plan, or ran twice", t.Kind, t.Index)
		}
		seen[key] = true
		into[t.Index] = t
	}
	if want := len(c.steps) + len(c.created); len(seen) != want {
		return fmt.Errorf("%d steps and loads ran, %d were planned", len(seen), want)
	}
	for i, t := range c.steps {
		s := c.plan.Steps[i]
		if t.Lane != NPU || t.Block != s.Block || t.Chunk != s.Chunk || t.Graph&s.Graph == 0 || t.Graph == Both {
			return fmt.Errorf("step %d was chunk %d of block %d on %s", i, t.Chunk, t.Block, t.Graph)
		}
		if want := runs(c.plan.Rows2, c.plan.Chunks[s.Chunk], t.Graph); t.Runs != want {
			return fmt.Errorf("step %d ran %d times, not %d", i, t.Runs, want)
		}
	}
	for j, t := range c.created {
		if l := c.plan.Loads[j]; t.Lane != IO || t.Block != l.Block || t.Graph != l.Graph {
			return fmt.Errorf("load %d was %s of block %d", j, t.Graph, t.Block)
		}
	}
	return nil
}

// lanes: one task at a time on each.
func (c *checker) lanes() error {
	var end [len(laneNames)]float64
	byStart := slices.Clone(c.line.Tasks)
	slices.SortStableFunc(byStart, func(a, b Task) int { return cmp.Compare(a.StartMs, b.StartMs) })
	for _, t := range byStart {
		if int(t.Lane) >= len(end) || t.StartMs < end[t.Lane]-slack {
			return fmt.Errorf("two tasks on %s at %v ms", t.Lane, t.StartMs)
		}
		end[t.Lane] = t.EndMs
	}
	return nil
}

// order: steps and loads in the plan's order; a chunk enters a block after the
// block before it and after the chunk before it.
func (c *checker) order() error {
	for i := 1; i < len(c.steps); i++ {
		if c.steps[i].StartMs < c.steps[i-1].EndMs-slack {
			return fmt.Errorf("step %d began before step %d had ended", i, i-1)
		}
	}
	for j := 1; j < len(c.created); j++ {
		if c.created[j].StartMs < c.created[j-1].EndMs-slack {
			return fmt.Errorf("load %d began before load %d had ended", j, j-1)
		}
	}
	return nil // the plan's own order keeps to the data: Validate
}

// loads: none before its release, none beside its own block.
func (c *checker) loads() error {
	for j, t := range c.created {
		if after := c.plan.Loads[j].After; after >= 0 && t.StartMs < c.steps[after].EndMs-slack {
			return fmt.Errorf("load %d began before step %d had ended", j, after)
		}
		if c.plan.Spare {
			continue
		}
		for i, s := range c.steps {
			if s.Block == t.Block && s.StartMs < t.EndMs-slack && t.StartMs < s.EndMs-slack {
				return fmt.Errorf("step %d ran while load %d exchanged its graph", i, j)
			}
		}
	}
	return nil
}

// residency: every step ran on a graph that was there.
func (c *checker) residency() error {
	for i, s := range c.steps {
		now := c.plan.Before[s.Block]
		for j := c.plan.loadOf(s.Block, 0); j < len(c.created); j = c.plan.loadOf(s.Block, j+1) {
			t := c.created[j]
			if t.EndMs > s.StartMs+slack {
				break
			}
			// A graph that ends loading in this very moment may be seen or not.
			if !(c.plan.Spare && t.EndMs > s.StartMs-slack && s.Graph&now != 0) {
				now = t.Graph
			}
		}
		if s.Graph&now == 0 {
			return fmt.Errorf("step %d ran on %s when its block had %s", i, s.Graph, now)
		}
	}
	return nil
}

// memory: one set of graphs, a spare block where the plan has one, and never
// more than the session's window.
func (c *checker) memory() error {
	p := c.problem
	most, largest := p.HostBytes+p.SessionBytes, int64(0)
	for b := range c.plan.Blocks {
		held := max(p.bytes(b, c.plan.Before[b]), p.bytes(b, c.plan.After[b]))
		for _, l := range c.plan.Loads {
			if l.Block == b {
				held = max(held, p.bytes(b, l.Graph))
				largest = max(largest, p.bytes(b, l.Graph))
			}
		}
		most += held
	}
	if c.plan.Spare {
		most += largest
	}
	if c.line.PeakBytes > most {
		return fmt.Errorf("%d bytes at its peak, %d are enough", c.line.PeakBytes, most)
	}
	if p.WindowBytes > 0 && c.line.PeakBytes-p.HostBytes > p.WindowBytes {
		return fmt.Errorf("%w: %d bytes of %d", ErrMemory, c.line.PeakBytes-p.HostBytes, p.WindowBytes)
	}
	return nil
}

// totals: what the timeline says of itself.
func (c *checker) totals() error {
	again := *c.line
	again.Tasks = slices.Clone(c.line.Tasks)
	again.Sum(c.problem)
	for _, pair := range [][2]float64{
		{c.line.PrefillMs, again.PrefillMs},
		{c.line.SwitchEndMs, again.SwitchEndMs},
		{c.line.ExposedMs, again.ExposedMs},
		{c.line.StallMs, again.StallMs},
		{c.line.NPUBusyMs, again.NPUBusyMs},
		{float64(c.line.IOBytes), float64(again.IOBytes)},
		{float64(c.line.PeakBytes), float64(again.PeakBytes)},
	} {
		if math.Abs(pair[0]-pair[1]) > slack {
			return fmt.Errorf("a total of %v, its tasks have %v", pair[0], pair[1])
		}
	}
	var lanes [len(laneNames)]float64
	for _, t := range c.line.Tasks {
		if t.Kind == Run || t.Kind == Create { // decode passes may lie behind
			lanes[t.Lane] += t.EndMs - t.StartMs
		}
	}
	if c.line.SwitchEndMs < max(lanes[NPU], lanes[IO])-slack {
		return fmt.Errorf("it ends at %v, its lanes are busy for %v and %v", c.line.SwitchEndMs, lanes[NPU], lanes[IO])
	}
	return nil
}
