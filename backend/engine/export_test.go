package engine

import (
	"errors"

	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanWith makes the engine carry out the plans that f makes, of the prompt's
// tokens and what is resident.
func (e *Engine) PlanWith(f func(tokens int, before []graphswap.Graph) *graphswap.Plan) {
	e.planner = func(s promptShape) (*foretold, error) {
		problem, err := e.problem(s)
		return &foretold{plan: f(s.tokens, s.before), problem: problem}, err
	}
}

// WaitForLoads returns when no loader is at work.
func (e *Engine) WaitForLoads() {
	e.lanes.mu.Lock()
	x := e.lanes.on
	e.lanes.mu.Unlock()
	if x != nil {
		<-x.done
	}
}

// SwitchBack does what happens some time after the last request.
func (e *Engine) SwitchBack() { e.switchBack() }

// Entered is how many generations go on, as idle time counts them.
func (e *Engine) Entered() int {
	e.idle.mu.Lock()
	defer e.idle.mu.Unlock()
	return e.idle.users
}

// Residency is which graphs of each block are in the device.
func (e *Engine) Residency() []graphswap.Graph { return e.lanes.residency(e.family.Load()) }

// NotResident tells that a request ended because a block had no graph.
func (e *Engine) NotResident(err error) bool { return errors.Is(err, errNotResident) }

// PlanTimeline is what the last execution has done.
func (e *Engine) PlanTimeline() graphswap.Timeline {
	return e.lanes.on.log.snapshot(e.lanes.on.told.problem)
}

// DirtySlots counts bytes that are not zero in slots that hold no committed
// token.
func (e *Engine) DirtySlots() (n int) {
	f := e.family.Load()
	size := e.config.HeadDim * e.options.Recipe.Cache.Size()
	for i := range f.memory.layers {
		for _, r := range f.memory.layers[i].past {
			for head := range e.config.KVHeads {
				for s := range e.sequences.sequences {
					from := head*f.slots + s*f.context
					for _, b := range r.all()[(from+e.sequences.length(s))*size : (from+f.context)*size] {
						n += int(min(b, 1))
					}
				}
			}
		}
	}
	return n
}
