package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// idle brings the wide graphs back while nobody asks for anything, if that makes
// the usual prompt's answer come sooner. The zero value does nothing.
type idle struct {
	mu      sync.Mutex
	users   int // generations that go on
	prompts []int
	timer   *time.Timer
	closed  bool
}

// rememberedPrompts bounds those whose median is the usual prompt; idleGain is
// the part of the time until its answer's end that wide graphs must save.
const (
	rememberedPrompts = 16
	idleGain          = 0.05
)

// enter counts a generation and ends what goes on because there was none.
func (e *Engine) enterIdle() {
	e.idle.mu.Lock()
	defer e.idle.mu.Unlock()
	e.idle.users++
	if e.idle.timer != nil {
		e.idle.timer.Stop()
	}
	if e.lanes != nil {
		e.lanes.wake()
	}
}

// leaveIdle ends a generation. Some time after the last one graphs come back,
// where plans exchange them on a clock that passes here.
func (e *Engine) leaveIdle() {
	e.idle.mu.Lock()
	defer e.idle.mu.Unlock()
	e.idle.users--
	name, _, _ := e.options.planName()
	if e.idle.users > 0 || e.idle.closed || e.options.IdleSwitch <= 0 || e.lanes == nil || name != PlanAuto && !graphswap.Switches(name) {
		return
	}
	if e.idle.timer == nil {
		e.idle.timer = time.AfterFunc(e.options.IdleSwitch, e.switchBack)
		return
	}
	e.idle.timer.Reset(e.options.IdleSwitch)
}

// prompted remembers how many tokens of a prompt had to be computed.
func (i *idle) prompted(tokens int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.prompts = append(i.prompts, tokens)
	i.prompts = i.prompts[max(0, len(i.prompts)-rememberedPrompts):]
}

func (i *idle) usual() int {
	sorted := slices.Sorted(slices.Values(i.prompts))
	return sorted[len(sorted)/2]
}

// close lets nothing begin any more; what goes on is the lanes' to stop.
func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	if i.timer != nil {
		i.timer.Stop()
	}
}

// switchBack begins to load the wide graphs, unless somebody came meanwhile.
func (e *Engine) switchBack() {
	e.idle.mu.Lock()
	defer e.idle.mu.Unlock()
	if e.idle.closed || e.idle.users > 0 || len(e.idle.prompts) == 0 {
		return
	}
	select {
	case e.lane <- struct{}{}:
	default: // a pass of the lower level
		return
	}
	defer e.unlock()
	if e.usable() != nil || !e.lanes.idle() || e.lanes.gaveUp() || e.inVirtualTime() {
		return
	}
	f := e.family.Load()
	told, err := e.wayBack(e.lanes.residency(f), e.idle.usual())
	if err != nil || told == nil {
		e.options.Logger.Debug("graphs stay as they are while nobody asks", "reason", err)
		return
	}
	x := e.newExecution(f, told, nil)
	x.ended, x.idle = true, true // there is no prompt that loads would wait for
	e.lanes.mu.Lock()
	if x.before = e.lanes.on; x.before != nil && x.before.idle {
		x.before = x.before.before
	}
	e.lanes.mu.Unlock()
	e.lanes.begin(x, false)
}

// wayBack is the plan that loads the wide graph of every block that has none, or
// nil where the usual prompt is not served sooner by that.
func (e *Engine) wayBack(now []graphswap.Graph, tokens int) (*foretold, error) {
	plan := &graphswap.Plan{
		Name: "idle", Blocks: len(now), Rows1: e.options.Rows[0], Rows2: e.options.partRows(), Before: now, After: slices.Clone(now),
		Reason: fmt.Sprintf("nobody asked for anything: wide graphs are loaded for the next prompt of about %d tokens", tokens),
	}
	for b, g := range now {
		if g&graphswap.G1 == 0 {
			plan.Loads = append(plan.Loads, graphswap.Load{Block: b, Graph: graphswap.G1, After: -1})
			plan.After[b] = graphswap.G1
		}
	}
	if len(plan.Loads) == 0 {
		return nil, nil
	}
	e.habitsMu.Lock()
	shape := promptShape{tokens: tokens, before: now, rows: e.options.Rows, output: e.habits.outputs, accept: e.habits.accepted, alone: true}
	e.habitsMu.Unlock()
	stay, err := e.planner(shape)
	if err != nil {
		return nil, err
	}
	shape.before = plan.After
	back, err := e.planner(shape)
	if err != nil {
		return nil, err
	}
	if least := (1 - idleGain) * stay.answered(shape); stay.line == nil || back.line == nil || back.answered(shape) > least {
		return nil, nil
	}
	return &foretold{plan: plan, problem: back.problem}, nil
}

// answered is when an answer of the usual length has come to its end.
func (f *foretold) answered(s promptShape) float64 {
	if f.line == nil {
		return 0
	}
	ms, perToken := f.line.SwitchEndMs, 0.0
	for b, g := range f.plan.After {
		times := f.problem.Verify[1]
		if g&graphswap.G2 == 0 {
			times = f.problem.Verify[0]
		}
		perToken += times[b]
	}
	return ms + perToken*s.output/max(s.accept, 1)
}

// wake lets no further load of an idle time begin.
func (l *lanes) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.on; x != nil && x.idle && !x.over {
		x.aborted = true
		l.tell()
	}
}

// awake waits for the load that wake has let go on: what is resident is certain
// then.
func (l *lanes) awake(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(ctx, func() bool { return l.on == nil || !l.on.idle || l.on.over })
}
