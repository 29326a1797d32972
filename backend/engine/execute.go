package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// execution carries out a plan: passes of the prompt that it was made for run
// its steps, a goroutine makes its loads. Other passes run on what is there. All
// fields that change are guarded by the mutex of lanes.
type execution struct {
	lanes  *lanes
	family *family
	loader *loader
	job    *job // whose prompt it is
	told   *foretold
	plan   *graphswap.Plan
	at     map[graphswap.Step]int // place of a step, by chunk and block
	began  time.Time
	log    *recorder

	chunk   int // of the next pass of the prompt
	loading int // the load that the loader is at, or -1
	steps   int // one more than the last step that is done
	loaded  []bool
	ended   bool // the prompt is computed, and loads wait no more
	aborted bool // no further load begins
	err     error
	over    bool // the loader has ended
	learned bool // costs are corrected by it
	// idle tells that it belongs to no prompt; before is then the last one that
	// did.
	idle   bool
	before *execution

	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of the loader's goroutine, which load is
	done   chan struct{}
}

func (e *Engine) newExecution(f *family, told *foretold, j *job) *execution {
	plan := told.plan
	x := &execution{
		lanes: e.lanes, family: f, loader: f.loader.quiet(), job: j, told: told, plan: plan,
		at: make(map[graphswap.Step]int, len(plan.Steps)), began: time.Now(), loading: -1,
		loaded: make([]bool, len(plan.Loads)), done: make(chan struct{}),
	}
	x.log = newRecorder(x.began, plan)
	for i, s := range plan.Steps {
		x.at[graphswap.Step{Chunk: s.Chunk, Block: s.Block}] = i
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// wants is the graph that the plan has for a block's rows of a pass; Both is
// whatever there is. Passes that the plan does not know take what they find as
// long as the prompt lasts; after it, the loads that are left are waited for.
func (x *execution) wants(block int, pl *plan) graphswap.Graph {
	switch {
	case x.aborted || x.over:
		return graphswap.Both
	case x.ended:
		return x.plan.After[block]
	case pl.chunk == unplanned:
		return graphswap.Both
	}
	if i, ok := x.at[graphswap.Step{Chunk: pl.chunk, Block: block}]; ok {
		return x.plan.Steps[i].Graph
	}
	return x.plan.After[block] // more chunks than planned: others had rows in them
}

// comes reports whether a load of one of graphs is still to be made.
func (x *execution) comes(block int, graphs graphswap.Graph) bool {
	if x.over {
		return false
	}
	for i, load := range x.plan.Loads {
		if load.Block == block && load.Graph&graphs != 0 && !x.loaded[i] && (!x.aborted || x.loading == i) {
			return true
		}
	}
	return false
}

// end tells that the prompt is computed, or that it will not be: then no further
// load begins.
func (x *execution) end(failed bool) {
	if x == nil {
		return
	}
	x.lanes.change(func() {
		if x.ended = !failed; failed {
			x.aborted = true
		}
	})
}

// load is the loader's goroutine.
func (x *execution) load() {
	var err error
	for i := range x.plan.Loads {
		if !x.released(i) {
			break
		}
		if err = x.exchange(i); err != nil {
			break
		}
	}
	last := false
	x.lanes.change(func() {
		x.over, x.err = true, err
		last = x.lanes.note(x, err)
	})
	x.close(last)
}

// close tells that nothing is left to be done; last, that loads failed too often.
func (x *execution) close(last bool) {
	if last {
		x.loader.options.Logger.Warn("graphs are exchanged no more, because they cannot be loaded: what is in the device stays",
			"plans_that_failed", maxFailures, "reason", x.err)
	}
	x.cancel()
	close(x.done)
}

// released waits until a load may begin; false means that it never will.
func (x *execution) released(load int) bool {
	x.lanes.mu.Lock()
	defer x.lanes.mu.Unlock()
	after := x.plan.Loads[load].After
	err := x.lanes.wait(x.ctx, func() bool { return x.aborted || x.ended || x.steps > after })
	return err == nil && !x.aborted
}

// exchange brings one graph of a block into the device and frees the other one:
// before, or with a spare slot afterwards. What fails leaves the block with the
// graph that it had.
func (x *execution) exchange(i int) error {
	l, load := x.lanes, x.plan.Loads[i]
	b := x.family.blocks[load.Block]
	to, from := b.form(load.Graph), b.form(graphswap.Both^load.Graph)
	task := graphswap.Task{Lane: graphswap.IO, Kind: graphswap.Create, StartMs: x.log.now(), Block: load.Block, Graph: load.Graph, Index: i}
	l.change(func() { x.loading = i })
	s, err := x.replace(b, to, from)
	l.change(func() {
		task.EndMs = x.log.now() // before anybody can run it
		x.loading = -1
		if x.loaded[i] = err == nil; err == nil {
			to.step, b.latest = s, load.Graph
		}
	})
	if err != nil {
		return fmt.Errorf("engine: switch block %d to %d rows: %w", load.Block, to.rows, err)
	}
	task.Bytes = to.sizeBytes()
	x.log.add(task)
	if x.plan.Spare {
		return x.take(b, from)
	}
	return nil
}

// replace frees from, unless there is a spare slot for to, and loads to.
func (x *execution) replace(b *block, to, from *form) (*step, error) {
	if to.step != nil { // it is there, whatever the plan was told
		return to.step, nil
	}
	if !x.plan.Spare {
		if err := x.take(b, from); err != nil {
			return nil, err
		}
	}
	s, err := x.open(x.ctx, to)
	if err == nil {
		return s, nil
	}
	if x.plan.Spare && errors.Is(err, backend.ErrNoMemory) {
		x.family.costs.refused()
	}
	if from.step != nil {
		return nil, err
	}
	back, again := x.open(context.WithoutCancel(x.ctx), from)
	x.lanes.change(func() { from.step = back })
	return nil, errors.Join(err, again)
}

// open loads a form.
func (x *execution) open(ctx context.Context, f *form) (*step, error) {
	s, err := f.open(ctx, x.loader)
	if err == nil {
		x.family.programBytes.Add(f.sizeBytes())
	}
	return s, err
}

// take frees a form of a block once no run needs it.
func (x *execution) take(b *block, f *form) error {
	l := x.lanes
	l.mu.Lock()
	err := l.wait(context.Background(), func() bool { return l.running != b }) // an execute ends by itself
	f.step = nil
	l.tell()
	l.mu.Unlock()
	size := f.sizeBytes()
	err = errors.Join(err, f.free())
	x.family.programBytes.Add(-size)
	return err
}
