package engine

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Policy makes the decisions of an [Engine] that depend on times. Policy also times work on
// the CPU. Each engine has its own policy, which uses measured times. [Options].Policy may
// wrap the engine's policy and replace single methods. The policy of the following example
// runs a given plan.
//
//	type givenPlan struct {
//		engine.Policy
//		plan    *graphswap.Plan
//		problem *graphswap.Problem
//	}
//
//	func (p givenPlan) PlanPrompt(engine.Prompt) (*engine.Forecast, error) {
//		return engine.NewForecast(p.plan, p.problem)
//	}
//
//	options.Policy = func(own engine.Policy) engine.Policy { return givenPlan{own, plan, problem} }
//
// To choose a plan yourself, call [Prompt].Problem and compute the plan from the
// result, as enginetest.PlanBy does. Several goroutines call the methods of a Policy,
// and some of them hold the device lock: a method must not call the engine.
type Policy interface {
	// PlanPrompt returns the switch plan for a prompt. The engine calls PlanPrompt only if
	// [Options].Plan switches graphs. The plan must be for the prompt's number of tokens and
	// start from the loaded graphs; otherwise the request fails with [ErrRequest]. If
	// PlanPrompt returns another error, the prompt runs on the loaded graphs without a plan.
	PlanPrompt(Prompt) (*Forecast, error)
	// PassTime returns the expected time of a pass through graphs of the given width. With
	// PassTime, the engine finds the width that gives the most tokens per time.
	PassTime(width int) time.Duration
	// CalibratePrompt decides whether the head runs for all computed rows of a prompt,
	// or only for the last one. maxTokens limits the length of the answer; a negative
	// number means no limit.
	CalibratePrompt(rows, maxTokens int) CalibrationChoice
	// Stopwatch starts a stopwatch for the calling goroutine, which must stop it.
	Stopwatch() (stop func() Elapsed)
}

// Prompt describes a prompt that needs a plan.
type Prompt struct {
	// Tokens is the number of tokens to compute. Cached is the number of earlier tokens of the
	// prompt that the KV cache holds.
	Tokens, Cached int
	// AllLogits is set if the head runs for each of the prompt's tokens.
	AllLogits bool
	// Resident lists which graphs of each block are loaded.
	Resident []graphswap.Variant
	// Output is the expected length of the answer, and Accept the expected number of
	// tokens per pass. Output and Accept are zero until the first answer has ended.
	Output, Accept float64
	// Alone is set if no other request waits for the device.
	Alone bool

	engine *Engine
	shape  *shape // shape is the shape of the graphs that compute the prompt
}

// Problem returns the planning problem for the prompt, with the engine's measured or
// given costs.
func (p Prompt) Problem() (*graphswap.Problem, error) { return p.engine.problem(p) }

// Forecast holds a plan, the problem that the plan solves, and the timeline that is
// expected.
type Forecast = residency.Forecast

// NewForecast simulates a plan and returns its forecast.
func NewForecast(plan *graphswap.Plan, problem *graphswap.Problem) (*Forecast, error) {
	return residency.NewForecast(plan, problem)
}

// checkPlan returns an error if a forecast's plan is not for this prompt.
func (p Prompt) checkPlan(f *Forecast, rows []int) error {
	if err := f.Plan.Validate(); err != nil {
		return fmt.Errorf("engine: %w: %w", ErrRequest, err)
	}
	tokens := 0
	for _, n := range f.Plan.Chunks {
		tokens += n
	}
	if tokens != p.Tokens || !slices.Equal(f.Plan.Before, p.Resident) || f.Plan.PrefillRows != rows[0] || f.Plan.DecodeRows != rows[len(rows)-1] {
		return fmt.Errorf("engine: %w: plan %s is for %d tokens and loaded graphs %v, but the prompt has %d tokens and loaded graphs %v",
			ErrRequest, f.Plan.Name, tokens, f.Plan.Before, p.Tokens, p.Resident)
	}
	return nil
}

// CalibrationChoice is a decision of [Policy].CalibratePrompt. Cost and Gain are the
// predicted times that were compared. Cost and Gain are zero if nothing was measured
// yet.
type CalibrationChoice struct {
	Calibrate  bool
	Cost, Gain time.Duration
}

// Elapsed is the time that some work took. CPU is the processor time of the thread.
// CPU is zero if the policy does not measure the processor time: see
// [Options].ThreadTime.
type Elapsed struct {
	Began     time.Time
	Wall, CPU time.Duration
}

// ownPolicy is the default policy of an engine.
type ownPolicy struct{ e *Engine }

func (p ownPolicy) PlanPrompt(prompt Prompt) (*Forecast, error) { return p.e.makePlan(prompt) }

func (p ownPolicy) PassTime(width int) time.Duration { return p.e.shape().passTimes.Expected(width) }

func (p ownPolicy) CalibratePrompt(rows, maxTokens int) CalibrationChoice {
	o := &p.e.options
	switch {
	case !o.Draft.Calibration || o.AlwaysCalibrate:
		return CalibrationChoice{Calibrate: o.Draft.Calibration}
	case o.Draft.Auto: // calibrating the prompt would delay the first token
		return CalibrationChoice{}
	}
	cost, gain := p.e.workload.Calibration(rows, maxTokens)
	return CalibrationChoice{Calibrate: cost <= gain, Cost: cost, Gain: gain}
}

// Stopwatch implements [Policy]. If the processor time is measured, the goroutine stays
// on its thread until the stopwatch is stopped.
func (p ownPolicy) Stopwatch() (stop func() Elapsed) {
	thread := p.e.options.ThreadTime
	if thread == nil {
		began := time.Now()
		return func() Elapsed { return Elapsed{Began: began, Wall: time.Since(began)} }
	}
	runtime.LockOSThread()
	cpu, began := thread(), time.Now()
	return func() Elapsed {
		e := Elapsed{Began: began, Wall: time.Since(began), CPU: thread() - cpu}
		runtime.UnlockOSThread()
		return e
	}
}
