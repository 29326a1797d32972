package engine

import "github.com/sdnpu/sdnpu/backend/engine/report"

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
