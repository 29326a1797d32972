package graphswap

import "strings"

// The ways to hold a model's graphs in device memory: the values of the setting
// sdnpu.plan, and the names of plans.
const (
	// PlanAuto lets the engine decide from the device, the widths and the prompt.
	PlanAuto = "auto"
	// PlanResident keeps both graphs of every block loaded; a pair stores its
	// equal weights once.
	PlanResident = "resident"
	// PlanSeparate keeps both graphs of every block loaded, each with weights of
	// its own.
	PlanSeparate = "separate"
	// PlanSwitch switches graphs block by block during the prefill; the planner
	// searches for the schedule that ends first.
	PlanSwitch = "switch"
	// PlanPrefillOnly loads the prefill graphs alone; decode passes are padded.
	PlanPrefillOnly = "prefill_only"
	// PlanDecodeOnly loads the decode graphs alone; prompts take many executes.
	PlanDecodeOnly = "decode_only"
	// PlanLibrary lets the device's library switch the graphs of a block, inside
	// the executes that need them. Devices that cannot do so use PlanSwitch.
	PlanLibrary = "library"

	// PlanSwitchInOrder is PlanSwitch, restricted to plans that take every chunk
	// through all blocks before the next chunk. The engine uses it while other
	// requests run, so that their rows can go with each chunk.
	PlanSwitchInOrder = "switch_in_order"
)

// PlanNames lists the plans that [Problem.Make] makes.
func PlanNames() []string {
	return []string{PlanPrefillOnly, PlanDecodeOnly, PlanSwitchInOrder, PlanSwitch, PlanSeparate, PlanResident}
}

// Switches reports whether a plan switches graphs, and so can use a spare slot.
func Switches(name string) bool { return name == PlanSwitch || name == PlanSwitchInOrder }

// CutSpare splits a plan as users write it into its name and its suffix: "+spare"
// requires a spare slot, "-spare" forbids one, and no suffix leaves it open.
func CutSpare(text string) (name string, required, forbidden bool) {
	if name, required = strings.CutSuffix(text, "+spare"); !required {
		name, forbidden = strings.CutSuffix(name, "-spare")
	}
	return name, required, forbidden
}

// oldPlans maps the old values of sdnpu.plan to the present ones.
var oldPlans = map[string]string{
	"both_resident":    PlanResident,
	"shared_pair":      PlanResident,
	"g1_only":          PlanPrefillOnly,
	"g2_only":          PlanDecodeOnly,
	"lazy":             PlanLibrary,
	"descent":          PlanSwitch,
	"descent_in_order": PlanSwitch,
	"exact":            PlanSwitch,
	"exact_in_order":   PlanSwitch,
	"sync":             PlanSwitch,
	"naive_async":      PlanSwitch,
	"greedy":           PlanSwitch,
	"greedy_deferred":  PlanSwitch,
}

// CurrentPlan returns the plan that the product runs for a value of sdnpu.plan.
// Models may carry values of earlier versions, with or without "+spare" or
// "-spare"; any other value is returned as it is.
func CurrentPlan(value string) string {
	if plan, replaced := oldPlans[value]; replaced {
		return plan
	}
	name, required, forbidden := CutSpare(value)
	switched := oldPlans[name] == PlanSwitch || oldPlans[name] == PlanLibrary
	switch {
	case switched && required:
		return PlanSwitch + "+spare"
	case switched && forbidden:
		return PlanSwitch + "-spare"
	}
	return value
}
