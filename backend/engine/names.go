package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/engine/queue"
	"github.com/sdnpu/sdnpu/backend/engine/report"
	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Package report describes what an engine has done.
type (
	// Report describes what the engine did for a request.
	Report = report.Report
	// Verification describes a decode pass of a request.
	Verification = report.Verification
	// PromptPass describes a pass that computed tokens of a prompt.
	PromptPass = report.PromptPass
	// PlanReport describes what a switch plan has done until the end of the request.
	PlanReport = report.PlanReport
	// Growth describes one change of the engine to the graphs of a longer context tier.
	Growth = report.Growth
	// Calibration describes what the drafter learned from the logits of a prompt's rows.
	Calibration = report.Calibration
	// Work is a task that the CPU did for a request.
	Work = report.Work
	// Clock tells which clock measures the device's calls.
	Clock = report.Clock
	// DeviceTimes holds the times of a request on the clock of a simulated device.
	DeviceTimes = report.DeviceTimes
	// Choice describes the configuration of the graphs that answered a request.
	Choice = report.Choice
	// Lossless describes what can make a text with drafts differ from the text without.
	Lossless = report.Lossless
	// Flips is the measured rate at which the graph width changes the top token.
	Flips = report.Flips
	// WidthFlip describes the comparison of one graph width.
	WidthFlip = report.WidthFlip
	// Memory describes the memory that an Engine uses, in bytes.
	Memory = report.Memory
	// State describes the work of an engine since its start.
	State = report.State
	// StopReason is the reason why an output ended.
	StopReason = report.StopReason
)

// The stop reasons have llama-server's names.
const (
	StopEOS   = report.StopEOS
	StopWord  = report.StopWord
	StopLimit = report.StopLimit
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
	// Elapsed is the time that a piece of work on the CPU took.
	Elapsed = settings.Elapsed
	// Forecast holds a plan, its planning problem and the timeline that is expected.
	Forecast = settings.Forecast
)

// ErrOptions is returned if options contradict each other or the model.
var ErrOptions = settings.ErrOptions

// PlanAuto keeps as many graphs loaded as fit into the device's memory.
const PlanAuto = settings.PlanAuto

// Plans lists the values of [Options].Plan.
var Plans = settings.Plans

// NewForecast simulates a plan and returns its forecast.
func NewForecast(plan *graphswap.Plan, problem *graphswap.Problem) (*Forecast, error) {
	return settings.NewForecast(plan, problem)
}

// CheckPlan returns an error if a text is not a valid [Options].Plan.
func CheckPlan(text string) error { return settings.CheckPlan(text) }

// CheckPlanRows returns [ErrOptions] if a plan cannot use graphs of the given widths.
func CheckPlanRows(plan string, rows []int) error { return settings.CheckPlanRows(plan, rows) }

// CheckExact returns an error if no device can combine [Options].Exact with the given plan.
func CheckExact(plan string) error { return settings.CheckExact(plan) }

// Some types of package images are part of an engine's options and results.
type (
	// Progress tells how many of the images are compiled and loaded.
	Progress = images.Progress
	// Job describes an image to be compiled.
	Job = images.Job
	// Prepared is an image that an engine will need.
	Prepared = images.Prepared
	// MeasureOptions tunes [Measure].
	MeasureOptions = images.MeasureOptions
	// Measurement holds the times of one graph.
	Measurement = images.Measurement
	// Measurements holds the measurements of all graphs of a model.
	Measurements = images.Measurements
)

// ErrJob is returned if the graphs that a [Job] describes are not those for which the job was
// made.
var ErrJob = images.ErrJob

// DefaultPatience is the default of [Options.CompilePatience].
const DefaultPatience = images.DefaultPatience

// WorkTime returns the longest time that is normal for compiling constants of the
// given size. A patience of zero means [DefaultPatience].
func WorkTime(patience time.Duration, weights int64) time.Duration {
	return images.WorkTime(patience, weights)
}

// Some types of package queue are arguments and results of [Engine.Forward].
type (
	// Pass lists the rows that the graphs compute together in a forward pass.
	Pass = queue.Pass
	// Row describes one token of a pass.
	Row = queue.Row
	// Result holds what a pass has computed.
	Result = queue.Result
)

// Root is the Parent of a row that directly follows the committed tokens of its
// sequence.
const Root = queue.Root
