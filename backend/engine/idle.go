package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// idleSwitch loads other graphs while no request runs, if the engine then answers a prompt
// of usual length sooner. The zero value never loads graphs.
type idleSwitch struct {
	mu       sync.Mutex // guards what follows
	requests int        // that run now
	prompts  []int      // computed tokens of each of the last prompts
	timer    *time.Timer
	closed   bool
}

// rememberedPrompts is the number of prompts over which the median length is taken.
const rememberedPrompts = 16

// requestStarted counts a request that starts. No load of an idle run starts after
// that.
func (e *Engine) requestStarted() {
	e.idleSwitch.mu.Lock()
	defer e.idleSwitch.mu.Unlock()
	e.idleSwitch.requests++
	if e.idleSwitch.timer != nil {
		e.idleSwitch.timer.Stop()
	}
	e.switcher.AbortIdleLoads()
}

// requestEnded counts a request that ends. If no other request runs, idle time begins
// after [Options].IdleSwitch: the configuration may change, and if plans switch graphs,
// the graphs that suit the next prompt are loaded.
func (e *Engine) requestEnded() {
	if e.startPause() && e.clock.Virtual { // the pause takes no time on the device's clock
		e.useIdleTime()
	}
	e.startIdleWork()
}

// startPause counts a request that ends, and reports whether idle time begins that can be
// used. On a clock on which calls last, startPause starts the timer for it.
func (e *Engine) startPause() (begins bool) {
	e.idleSwitch.mu.Lock()
	defer e.idleSwitch.mu.Unlock()
	e.idleSwitch.requests--
	if e.idleSwitch.requests > 0 || e.idleSwitch.closed || e.options.IdleSwitch <= 0 || e.chooser == nil && !e.shape().switchesGraphs() {
		return false
	}
	switch {
	case e.clock.Virtual:
	case e.idleSwitch.timer == nil:
		e.idleSwitch.timer = time.AfterFunc(e.options.IdleSwitch, e.useIdleTime)
	default:
		e.idleSwitch.timer.Reset(e.options.IdleSwitch)
	}
	return true
}

// useIdleTime changes the configuration if that pays, and loads the graphs that suit the
// next prompt.
func (e *Engine) useIdleTime() {
	e.changeConfiguration()
	e.loadForNextPrompt()
}

// recordPrompt records how many tokens of a prompt had to be computed.
func (i *idleSwitch) recordPrompt(tokens int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.prompts = append(i.prompts, tokens)
	i.prompts = i.prompts[max(0, len(i.prompts)-rememberedPrompts):]
}

// medianPrompt returns the median number of computed tokens of the last prompts. The
// caller holds mu.
func (i *idleSwitch) medianPrompt() int {
	sorted := slices.Sorted(slices.Values(i.prompts))
	return sorted[len(sorted)/2]
}

// close prevents further loads of idle runs. The switcher stops a load in progress.
func (i *idleSwitch) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	if i.timer != nil {
		i.timer.Stop()
	}
}

// loadForNextPrompt starts to load the graphs that suit the next prompt, unless a request
// is running.
func (e *Engine) loadForNextPrompt() {
	e.idleSwitch.mu.Lock()
	defer e.idleSwitch.mu.Unlock()
	e.loadIdleGraphs()
}

// loadIdleGraphs does the work of loadForNextPrompt. In virtual time loadIdleGraphs returns
// after the loads. The caller holds the mutex of idleSwitch.
func (e *Engine) loadIdleGraphs() {
	if e.idleSwitch.closed || e.idleSwitch.requests > 0 || len(e.idleSwitch.prompts) == 0 {
		return
	}
	select {
	case e.deviceLock <- struct{}{}:
	default: // a caller of Forward holds the device lock
		return
	}
	defer e.unlock()
	if e.ensureLoaded() != nil || !e.shape().switchesGraphs() || !e.switcher.CanBegin() || e.switcher.Disabled() {
		return
	}
	f := e.graphs.Load()
	forecast, err := e.planIdle(f.shape, e.switcher.Resident(f.Set), e.idleSwitch.medianPrompt())
	if err != nil || forecast == nil {
		e.options.Logger.Debug("no graphs are switched while the engine is idle", "reason", err)
		return
	}
	x := e.switcher.NewIdleRun(f.Set, forecast)
	if virtual := e.virtualTime(); e.switcher.Begin(x, virtual) && virtual {
		x.EndVirtual(nil, x.LoadAllNow())
	}
}

// planIdle returns a plan that gives each block its prefill graph, or each block its
// decode graph, whichever lets the engine answer a prompt of usual length sooner.
// planIdle returns nil if neither saves enough time.
func (e *Engine) planIdle(s *shape, resident []graphswap.Variant, tokens int) (*Forecast, error) {
	p := Prompt{Tokens: tokens, Resident: resident, Alone: true, engine: e, shape: s}
	p.Output, p.Accept = e.workload.Expected()
	stay, err := e.policy.PlanPrompt(p)
	if err != nil || stay.Timeline == nil {
		return nil, err
	}
	stayMs := p.answerEndMs(stay)
	var best *Forecast
	least := stayMs
	for _, v := range []graphswap.Variant{graphswap.Prefill, graphswap.Decode} {
		plan := s.idlePlan(resident, v, tokens)
		if len(plan.Loads) == 0 {
			continue
		}
		p.Resident = plan.After
		then, err := e.policy.PlanPrompt(p)
		if err != nil {
			return nil, err
		}
		if then.Timeline == nil {
			continue
		}
		if ms := p.answerEndMs(then); ms < least && graphswap.IdleLoadsPay(stayMs, ms) {
			best, least = &Forecast{Plan: plan, Problem: then.Problem}, ms
		}
	}
	return best, nil
}

// idlePlan returns the plan that loads the variant v of each block in which that variant
// is not loaded.
func (s *shape) idlePlan(resident []graphswap.Variant, v graphswap.Variant, tokens int) *graphswap.Plan {
	plan := &graphswap.Plan{
		Name: "idle", Blocks: len(resident), PrefillRows: s.rows[0], DecodeRows: s.partRows(), Before: resident, After: slices.Clone(resident),
		Loads:  graphswap.IdleLoads(resident, v),
		Reason: fmt.Sprintf("the engine is idle: %s graphs are loaded for the next prompt of about %d tokens", v, tokens),
	}
	for _, l := range plan.Loads {
		plan.After[l.Block] = v
	}
	return plan
}

// answerEndMs returns when an answer of the expected length ends, in milliseconds after
// the plan's start.
func (p Prompt) answerEndMs(f *Forecast) float64 {
	if f.Timeline == nil {
		return 0
	}
	ms, perToken := f.Timeline.SwitchEndMs, 0.0
	for b, g := range f.Plan.After {
		times := f.Problem.VerifyMs[1]
		if g&graphswap.Decode == 0 {
			times = f.Problem.VerifyMs[0]
		}
		perToken += times[b]
	}
	return ms + perToken*p.Output/max(p.Accept, 1)
}
