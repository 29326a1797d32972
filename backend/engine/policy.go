package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Policy makes the decisions of an [Engine] that rest on times, and times the CPU's work.
// Each engine has a policy of its own, which is based on measurements.
// [Options].Policy may wrap it and replace single methods, for instance to carry
// out a given plan:
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
// A plan that is not given is made from the prompt's own problem: call [Prompt].Problem,
// then make the plan from it, as enginetest.PlanBy does. Several goroutines call the
// methods, some of them with the device lock held: a method must not call the engine.
type Policy interface {
	// PlanPrompt returns the switch plan of a prompt. The engine asks only if
	// [Options].Plan switches graphs. The plan must have the prompt's tokens and
	// start from the graphs that are resident; otherwise the request fails with
	// [ErrRequest]. If PlanPrompt returns another error, the prompt runs on the
	// resident graphs.
	PlanPrompt(Prompt) (*Forecast, error)
	// PassTime returns the expected time of a pass through graphs of a width. The
	// engine picks the width that gives the most tokens per time.
	PassTime(width int) time.Duration
	// CalibratePrompt decides whether the head runs for each of the prompt's rows
	// that are computed, or for the last one only. maxTokens limits the answer;
	// a negative number means that there is no limit.
	CalibratePrompt(rows, maxTokens int) CalibrationChoice
	// Stopwatch starts to time the calling goroutine, which must stop it.
	Stopwatch() (stop func() Elapsed)
}

// Prompt describes a prompt that needs a plan.
type Prompt struct {
	// Tokens are to be computed, and Cached tokens precede them.
	Tokens, Cached int
	// AllLogits is set if the head runs for each token.
	AllLogits bool
	// Resident are the loaded graphs of each block.
	Resident []graphswap.Variant
	// Output and Accept are the expected length of the answer and the expected
	// tokens per pass; zero if nothing is known.
	Output, Accept float64
	// Alone is set if no other request waits for the device.
	Alone bool

	problem func(Prompt) (*graphswap.Problem, error)
}

// Problem applies the engine's measured or given costs to the prompt.
func (p Prompt) Problem() (*graphswap.Problem, error) { return p.problem(p) }

// Forecast is a plan, the problem that it solves, and its expected timeline.
type Forecast = residency.Forecast

// NewForecast simulates a plan.
func NewForecast(plan *graphswap.Plan, problem *graphswap.Problem) (*Forecast, error) {
	return residency.NewForecast(plan, problem)
}

// checkPlan rejects a forecast whose plan is not for the prompt.
func (p Prompt) checkPlan(f *Forecast, rows []int) error {
	if err := f.Plan.Validate(); err != nil {
		return fmt.Errorf("engine: %w: %w", ErrRequest, err)
	}
	tokens := 0
	for _, n := range f.Plan.Chunks {
		tokens += n
	}
	if tokens != p.Tokens || !slices.Equal(f.Plan.Before, p.Resident) || f.Plan.PrefillRows != rows[0] || f.Plan.DecodeRows != rows[len(rows)-1] {
		return fmt.Errorf("engine: %w: plan %s for %d tokens from %v: the prompt has %d tokens and finds %v",
			ErrRequest, f.Plan.Name, tokens, f.Plan.Before, p.Tokens, p.Resident)
	}
	return nil
}

// CalibrationChoice is a decision of [Policy].CalibratePrompt. Cost and Gain are
// the predicted times that it compared; zero if nothing was measured yet.
type CalibrationChoice struct {
	Calibrate  bool
	Cost, Gain time.Duration
}

// Elapsed is the time that some work took. CPU is the thread's processor time; zero
// if the policy does not measure it.
type Elapsed struct {
	Began     time.Time
	Wall, CPU time.Duration
}

// ownPolicy is the policy that each engine has.
type ownPolicy struct{ e *Engine }

func (p ownPolicy) PlanPrompt(prompt Prompt) (*Forecast, error) { return p.e.makePlan(prompt) }

func (p ownPolicy) PassTime(width int) time.Duration { return p.e.passTimes.Expected(width) }

func (p ownPolicy) CalibratePrompt(rows, maxTokens int) CalibrationChoice {
	o := &p.e.options
	switch {
	case !o.Draft.Calibration || o.AlwaysCalibrate:
		return CalibrationChoice{Calibrate: o.Draft.Calibration}
	case o.Draft.Auto: // it would delay the first token
		return CalibrationChoice{}
	}
	cost, gain := p.e.workload.Calibration(rows, maxTokens)
	return CalibrationChoice{Calibrate: cost <= gain, Cost: cost, Gain: gain}
}

func (p ownPolicy) Stopwatch() (stop func() Elapsed) { return wallStopwatch() }

func wallStopwatch() (stop func() Elapsed) {
	began := time.Now()
	return func() Elapsed { return Elapsed{Began: began, Wall: time.Since(began)} }
}
