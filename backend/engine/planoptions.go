package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanAuto lets the device decide: a pair that shares its weights where it can,
// both graphs where they are known to fit, else the plan that graphswap's
// chooser takes for each prompt, of those for the blocks and widths at hand. With
// widths that cannot be exchanged it is the empty plan: it refuses nothing.
const PlanAuto = "auto"

// Plans are the values of [Options].Plan beside the empty one: [PlanAuto] and
// graphswap's plans. A plan that exchanges graphs uses a spare slot where there is room for
// one; "+spare" and "-spare" behind its name say what else to do.
var Plans = append([]string{PlanAuto}, graphswap.PlanNames()...)

// CheckPlan reports whether a text can be [Options].Plan.
func CheckPlan(text string) error {
	name, asked, refused := Options{Plan: text}.planName()
	if !slices.Contains(Plans, name) || (asked || refused) && (name == PlanAuto || !graphswap.Switches(name)) {
		return fmt.Errorf("%w: plan %.80q: one of %s wanted, +spare or -spare behind those that exchange graphs",
			ErrOptions, text, strings.Join(Plans, ", "))
	}
	return nil
}

// planName takes a plan's name apart. The spare slot is asked for, refused, or
// left open.
func (o Options) planName() (name string, asked, refused bool) {
	return graphswap.CutSpare(o.Plan)
}

// permit makes auto the empty plan where the widths are none that a plan exchanges,
// and keeps why.
func (o Options) permit(rowBytes int) Options {
	if o.Plan != PlanAuto {
		return o
	}
	switch {
	case !Exchangeable(o.Rows):
		o.Plan, o.stays = "", fmt.Sprintf("widths %v are none that plans exchange, two of which the first is a multiple of the second: every graph stays", o.Rows)
	case !o.aligned(rowBytes):
		o.Plan, o.stays = "", fmt.Sprintf("%d rows of %d bytes are no multiple of %d, as plans that exchange graphs want: every graph stays", o.Rows[1], rowBytes, alignment)
	}
	return o
}

// aligned tells that passes can be cut into the parts of a pair's narrow graph.
func (o Options) aligned(rowBytes int) bool { return o.Rows[1]*rowBytes%alignment == 0 }

// decide replaces auto where every graph stays, and says why in one sentence.
func (o Options) decide(c backend.Capabilities) (decided Options, reason string) {
	switch {
	case o.stays != "":
		reason = o.stays
	case o.Plan == graphswap.PlanLazy && c.SwapsGraphs:
		o.Plan, o.swaps = graphswap.PlanBoth, true
		reason = "the device's library exchanges the graphs of each block itself, inside the runs that need them"
	case o.Plan != PlanAuto:
	case c.SharesConstants:
		o.Plan = graphswap.PlanShared
		reason = "the graphs of a block share their weights on this device, so none has to go"
	case o.held(o.Costs).Residency == graphswap.BothGraphs:
		o.Plan = graphswap.PlanBoth
		reason = "both graphs of every block fit into the session, so none has to go"
	case o.Exact:
		o.Plan = graphswap.PlanBoth
		reason = "an exact width needs both graphs of every block, so none may go"
	}
	return o, reason
}

// start is what is resident of a block before the first prompt, and used is
// what ever is.
func (o Options) start() (start, used graphswap.Graph) {
	switch name, _, _ := o.planName(); name {
	case "", graphswap.PlanBoth, graphswap.PlanShared:
		return graphswap.Both, graphswap.Both
	case graphswap.PlanG1:
		return graphswap.G1, graphswap.G1
	case graphswap.PlanG2:
		return graphswap.G2, graphswap.G2
	}
	return graphswap.G1, graphswap.Both
}

// apart tells that every graph is an image of its own.
func (o Options) apart() bool { return o.Plan != "" && o.Plan != graphswap.PlanShared && !o.swaps }

// residencyName is the plan, or for an empty one that which it comes to.
func (e *Engine) residencyName() string {
	switch {
	case e.options.Plan != "":
		return e.options.Plan
	case e.dev.Capabilities().SharesConstants:
		return graphswap.PlanShared
	}
	return graphswap.PlanBoth
}

// parts is into how many parts the narrow graphs cut a pass of the widest rows,
// and partRows the rows of one; without a plan no pass is cut.
func (o Options) parts() int { return o.Rows[0] / o.partRows() }

func (o Options) partRows() int {
	if o.Plan != "" {
		return o.Rows[len(o.Rows)-1]
	}
	return o.Rows[0]
}

// checkPlan is for options whose widths are checked.
func (o Options) checkPlan(rowBytes int) error {
	if o.Plan == "" {
		return nil
	}
	if err := CheckPlan(o.Plan); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := CheckPlanRows(o.Plan, o.Rows); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if !o.aligned(rowBytes) {
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes are no multiple of %d", ErrOptions, o.Plan, o.Rows[1], rowBytes, alignment)
	}
	return nil
}

// Exchangeable tells that plans can exchange graphs of these widths.
func Exchangeable(rows []int) bool {
	return len(rows) == 2 && rows[1] > 0 && rows[0]%rows[1] == 0
}

// CheckPlanRows refuses widths that graphs of a plan cannot have; without a plan,
// and with [PlanAuto], there are none.
func CheckPlanRows(plan string, rows []int) error {
	if plan != "" && plan != PlanAuto && !Exchangeable(rows) {
		return fmt.Errorf("%w: plan %s with widths %v: two wanted, the first a multiple of the second", ErrOptions, plan, rows)
	}
	return nil
}

// checkSharing refuses a pair that a device would hold twice.
func (o Options) checkSharing(c backend.Capabilities) error {
	if o.Plan == graphswap.PlanShared && !c.SharesConstants {
		return fmt.Errorf("engine: %w: plan %s on %s, which stores the weights of each graph: %s does that knowingly",
			ErrOptions, o.Plan, c.Name, graphswap.PlanBoth)
	}
	return nil
}
