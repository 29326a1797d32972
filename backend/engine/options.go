package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Package settings checks and completes the options of an engine.
type (
	// Options configures an Engine. The zero Options are ready to use.
	Options = settings.Options
	// WidthTimes holds the times of graphs in seconds, by width.
	WidthTimes = settings.WidthTimes
	// Policy makes the decisions of an [Engine] that depend on times.
	Policy = settings.Policy
	// Prompt describes a prompt that needs a plan.
	Prompt = settings.Prompt
	// CalibrationChoice is a decision of [Policy].CalibratePrompt.
	CalibrationChoice = settings.CalibrationChoice
	// Elapsed is the time that some work took.
	Elapsed = settings.Elapsed
	// Forecast holds a plan, its planning problem and the timeline that is expected.
	Forecast = settings.Forecast
)

// PlanAuto keeps as many graphs loaded as fit into the device's memory.
const PlanAuto = settings.PlanAuto

// Plans lists the values of [Options].Plan.
var Plans = settings.Plans

// ErrOptions is returned if options contradict each other or the model.
var ErrOptions = settings.ErrOptions

// NewForecast simulates a plan and returns its forecast.
func NewForecast(plan *graphswap.Plan, problem *graphswap.Problem) (*Forecast, error) {
	return settings.NewForecast(plan, problem)
}

// CheckPlan returns an error if a text is not a valid [Options].Plan.
func CheckPlan(text string) error { return settings.CheckPlan(text) }

// CheckPlanRows returns [ErrOptions] if a plan cannot use graphs of the given widths.
func CheckPlanRows(plan string, rows []int) error { return settings.CheckPlanRows(plan, rows) }

// CheckExact returns an error if no device can combine [Options].Exact with this plan.
func CheckExact(plan string) error { return settings.CheckExact(plan) }
