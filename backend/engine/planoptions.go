package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Plans are the values of [Options].Plan beside the empty one. The first four
// keep everything that they use in the device; the others exchange the wide
// graphs, which prompts are computed on, for the narrow ones.
var Plans = []string{"both_resident", "shared_pair", "g1_only", "g2_only", "sync", "naive_async"}

// switches tells that blocks have one graph in the device at a time, or two
// where there is a spare slot.
func (o Options) switches() bool { return slices.Index(Plans, o.Plan) > 3 }

// apart tells that every graph is an image of its own.
func (o Options) apart() bool { return o.Plan == "both_resident" || o.switches() }

// parts is into how many parts the narrow graphs cut a pass of the widest rows,
// and partRows the rows of one; without switching no pass is cut.
func (o Options) parts() int { return o.Rows[0] / o.partRows() }

func (o Options) partRows() int {
	if o.switches() {
		return o.Rows[len(o.Rows)-1]
	}
	return o.Rows[0]
}

// resolvePlan fills in the widths that a plan leaves open and takes those away
// that it never uses.
func (o Options) resolvePlan() Options {
	if o.Plan == "" {
		return o
	}
	if len(o.Rows) == 0 {
		o.Rows = []int{128, 32}
	}
	switch o.Plan {
	case "g1_only":
		o.Rows = o.Rows[:1]
	case "g2_only":
		o.Rows = o.Rows[len(o.Rows)-1:]
	}
	return o
}

func (o Options) checkPlan(rowBytes int) error {
	switch {
	case o.Plan != "" && !slices.Contains(Plans, o.Plan):
		return fmt.Errorf("engine: %w: plan %q: one of %s wanted", ErrOptions, o.Plan, strings.Join(Plans, ", "))
	case o.switches() && (len(o.Rows) != 2 || o.Rows[0]%o.Rows[1] != 0):
		return fmt.Errorf("engine: %w: plan %s with widths %v: two wanted, the first a multiple of the second", ErrOptions, o.Plan, o.Rows)
	case o.switches() && o.Rows[1]*rowBytes%alignment != 0:
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes are no multiple of %d", ErrOptions, o.Plan, o.Rows[1], rowBytes, alignment)
	}
	return nil
}
