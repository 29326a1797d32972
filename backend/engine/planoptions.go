package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanAuto lets the device decide. If it shares constants, or if both graphs of every
// block fit into its memory, every graph stays loaded. Otherwise graphswap's chooser
// picks a plan for each prompt. If no plan can switch graphs of the widths, auto is the
// empty plan.
const PlanAuto = graphswap.PlanAuto

// Plans lists the values of [Options].Plan; the empty plan keeps every graph. The
// switch plan uses a spare slot if there is room for one: "switch+spare" requires
// it, "switch-spare" forbids it.
var Plans = []string{
	PlanAuto, graphswap.PlanResident, graphswap.PlanSeparate, graphswap.PlanSwitch,
	graphswap.PlanPrefillOnly, graphswap.PlanDecodeOnly, graphswap.PlanLibrary,
}

// CheckPlan returns [ErrOptions] if a text cannot be [Options].Plan.
func CheckPlan(text string) error {
	name, required, forbidden := graphswap.CutSpare(text)
	if !slices.Contains(Plans, name) || (required || forbidden) && (name == PlanAuto || !graphswap.Switches(name)) {
		return fmt.Errorf("%w: plan %.80q: want one of %s; +spare or -spare can follow switch",
			ErrOptions, text, strings.Join(Plans, ", "))
	}
	return nil
}

// residencyName returns the plan, or what the empty plan amounts to on the device.
func (e *Engine) residencyName() string {
	switch {
	case e.options.Plan != "":
		return e.options.Plan
	case e.dev.Capabilities().SharesConstants:
		return graphswap.PlanResident
	}
	return graphswap.PlanSeparate
}

// Exchangeable reports whether plans can switch between graphs of these widths.
func Exchangeable(rows []int) bool {
	return len(rows) == 2 && rows[1] > 0 && rows[0]%rows[1] == 0
}

// CheckPlanRows returns [ErrOptions] if the graphs of a plan cannot have some widths. The
// empty plan and [PlanAuto] accept all widths.
func CheckPlanRows(plan string, rows []int) error {
	if plan != "" && plan != PlanAuto && !Exchangeable(rows) {
		return fmt.Errorf("%w: plan %s with widths %v: want two, the first a multiple of the second", ErrOptions, plan, rows)
	}
	return nil
}
