package residency

import (
	"context"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Forecast is a plan, the problem that it solves, and its expected timeline.
type Forecast struct {
	Plan    *graphswap.Plan
	Problem *graphswap.Problem
	// Timeline is nil if nothing is predicted.
	Timeline *graphswap.Timeline
	// InOrder is set if each chunk goes through all blocks before the next one, because other
	// requests are running.
	InOrder bool
}

// NewForecast simulates a plan.
func NewForecast(plan *graphswap.Plan, problem *graphswap.Problem) (*Forecast, error) {
	line, err := graphswap.Simulate(plan, problem)
	if err != nil {
		return nil, fmt.Errorf("engine: plan %s: %w", plan.Name, err)
	}
	return &Forecast{Plan: plan, Problem: problem, Timeline: line}, nil
}

// Unplanned is the chunk of passes that no plan covers.
const Unplanned = -1

// Run carries out a plan. Passes of its prompt run the plan's steps, and its loader
// makes the plan's loads. Other passes run on the graphs that are loaded.
type Run struct {
	// Plan and Forecast do not change.
	Plan     *graphswap.Plan
	Forecast *Forecast
	// Owner identifies the prompt to the caller.
	Owner any
	// Log records what the run does.
	Log *Recorder

	switcher *Switcher
	set      *Set
	loader   *images.Loader
	at       map[graphswap.Step]int // the index of a step, by chunk and block

	// The fields below are guarded by the switcher's mutex. Only the goroutine that
	// computes the prompt changes chunk.
	chunk       int    // of the prompt's next pass
	loading     int    // the load in work, or -1
	steps       int    // one more than the last step that is done
	loaded      []bool // by load
	promptDone  bool   // the prompt is computed: remaining loads start at once
	noMoreLoads bool   // no further load starts
	loaderDone  bool   // the loader has ended
	err         error  // why it failed
	taught      bool   // costs have learned from the run
	before      *Run   // for an idle run: the last run of a prompt

	// idle is set if the run belongs to no prompt. It does not change.
	idle   bool
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // ends the loader's goroutine
	done   chan struct{}   // closed when the loader has ended
}

// NewRun returns a run of a plan for a prompt. [Switcher.Begin] starts it.
func (s *Switcher) NewRun(set *Set, f *Forecast, owner any) *Run {
	began := time.Now()
	x := &Run{
		Plan: f.Plan, Forecast: f, Owner: owner, Log: NewRecorder(began, f.Plan),
		switcher: s, set: set, loader: set.loader.Silent(), at: make(map[graphswap.Step]int, len(f.Plan.Steps)),
		loading: -1, loaded: make([]bool, len(f.Plan.Loads)), done: make(chan struct{}),
	}
	for i, step := range f.Plan.Steps {
		x.at[graphswap.Step{Chunk: step.Chunk, Block: step.Block}] = i
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// NewIdleRun returns a run of a plan that only loads graphs, for no prompt.
func (s *Switcher) NewIdleRun(set *Set, f *Forecast) *Run {
	x := s.NewRun(set, f, nil)
	x.idle, x.promptDone = true, true // there is no prompt that loads wait for
	return x
}

// wants returns the graph that the plan has for a block in a pass of a chunk, or Both
// for any graph. Passes that no plan covers run on any graph until the prompt is
// computed; then they wait for the remaining loads. The caller holds the mutex.
func (x *Run) wants(block, chunk int) graphswap.Variant {
	switch {
	case x.noMoreLoads || x.loaderDone:
		return graphswap.Both
	case x.promptDone:
		return x.Plan.After[block]
	case chunk == Unplanned:
		return graphswap.Both
	}
	if i, ok := x.at[graphswap.Step{Chunk: chunk, Block: block}]; ok {
		return x.Plan.Steps[i].Variant
	}
	return x.Plan.After[block] // rows of other requests made more chunks than planned
}

// willLoad reports whether any of the given graphs of a block will be loaded. The caller holds the
// mutex.
func (x *Run) willLoad(block int, graphs graphswap.Variant) bool {
	if x.loaderDone {
		return false
	}
	for i, load := range x.Plan.Loads {
		if load.Block == block && load.Variant&graphs != 0 && !x.loaded[i] && (!x.noMoreLoads || x.loading == i) {
			return true
		}
	}
	return false
}

// PromptEnded tells the run that the prompt is computed. If it failed, no further load starts. A
// nil run does nothing.
func (x *Run) PromptEnded(failed bool) {
	if x == nil {
		return
	}
	x.switcher.update(func() {
		if x.promptDone = !failed; failed {
			x.noMoreLoads = true
		}
	})
}

// Chunk returns the chunk that the prompt's next pass computes.
func (x *Run) Chunk() int {
	x.switcher.mu.Lock()
	defer x.switcher.mu.Unlock()
	return x.chunk
}

// ChunkDone tells the run that a pass has computed the chunk. A nil run does nothing.
func (x *Run) ChunkDone() {
	if x != nil {
		x.switcher.update(func() { x.chunk++ })
	}
}

// Window returns the next steps, up to the first at which every chunk begun has passed
// all blocks.
// More steps than blocks mean that several chunks go through a block before the next
// block gets them.
func (x *Run) Window() []graphswap.Step {
	chunk := x.Chunk()
	from := chunk * x.Plan.Blocks
	if from >= len(x.Plan.Steps) {
		return nil
	}
	steps := x.Plan.Steps[from:]
	last := chunk
	for i, s := range steps {
		last = max(last, s.Chunk)
		if i+1 == (last+1-chunk)*x.Plan.Blocks {
			return steps[:i+1]
		}
	}
	return steps
}

// RecordStep records that a pass of rows rows has run a block on a graph, and lets
// the loads start that waited for it. The pass came to the block at came and got its
// graph at began.
func (x *Run) RecordStep(b *Block, g *BlockGraph, chunk, rows int, came, began time.Time) {
	v := graphswap.Prefill
	if g == b.Graph(graphswap.Decode) {
		v = graphswap.Decode
	}
	n := (rows + g.Rows - 1) / g.Rows
	task := graphswap.Task{
		Lane: graphswap.NPU, Kind: graphswap.Run, StartMs: x.Log.At(began), EndMs: x.Log.Now(), Block: b.Index, Variant: v, Index: -1,
		Chunk: chunk, Runs: n, Rows: n * g.Rows, Valid: rows, WaitMs: Milliseconds(began.Sub(came)),
	}
	x.switcher.update(func() {
		if i, ok := x.at[graphswap.Step{Chunk: chunk, Block: b.Index}]; ok {
			task.Index = i
			x.steps = max(x.steps, i+1)
		}
	})
	x.Log.Add(task)
}

// Done is closed when the loader has ended.
func (x *Run) Done() <-chan struct{} { return x.done }

// Outcome returns the number of graphs that were loaded, and why loads failed.
func (x *Run) Outcome() (switches int, err error) {
	x.switcher.mu.Lock()
	defer x.switcher.mu.Unlock()
	for _, loaded := range x.loaded {
		if loaded {
			switches++
		}
	}
	return switches, x.err
}

// TeachCosts lets the costs learn from the run's timeline, once, if the run has ended
// and went as planned.
func (x *Run) TeachCosts(actual *graphswap.Timeline) {
	x.switcher.mu.Lock()
	defer x.switcher.mu.Unlock()
	if x.loaderDone && x.err == nil && x.promptDone && !x.taught && x.Forecast.Timeline != nil && actual.Check(x.Forecast.Problem) == nil {
		x.taught = true
		x.set.costs.Learn(actual, x.Forecast.Timeline)
	}
}
