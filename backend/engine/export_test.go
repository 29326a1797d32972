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

// Residency is which graphs of each block are in the device.
func (e *Engine) Residency() []graphswap.Graph { return e.lanes.residency(e.family.Load()) }

// NotResident tells that a request ended because a block had no graph.
func (e *Engine) NotResident(err error) bool { return errors.Is(err, errNotResident) }

// PlanTimeline is what the last execution has done.
func (e *Engine) PlanTimeline() graphswap.Timeline {
	return e.lanes.on.log.snapshot(e.lanes.on.told.problem)
}
