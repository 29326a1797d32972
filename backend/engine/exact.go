package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Lossless describes what drafts can change in a text, and everything else that
// decides on a pass's width.
type Lossless struct {
	// Exact is [Options].Exact. Width is then the width that computed each token after
	// the prompt, and else zero.
	Exact bool
	Width int
	// Flips is the measured rate at which pass width changes the top token. It counts
	// zero positions if every pass has one row, and is nil if nothing was measured.
	Flips *Flips
	// MeasuredOn is the plan on which MeasureFlips can compare the same widths, or ""
	// for the empty plan. Plans that switch graphs cannot compare them.
	MeasuredOn string
}

// lossless returns what drafts can change on this engine.
func (e *Engine) lossless() Lossless {
	o := &e.options
	l := Lossless{Exact: o.Exact, Flips: o.Flips}
	if l.Exact {
		l.Width = exactRows(o.Plan, o.Rows)
	}
	switch {
	case o.start != o.used:
		l.MeasuredOn = graphswap.PlanResident
	case o.used != graphswap.Both:
		l.MeasuredOn = o.Plan
	}
	if _, compared := o.FlipWidths(); len(compared) == 0 {
		l.Flips = &Flips{}
	}
	return l
}

// exactRows returns the width that computes each token after a prompt if the width
// must be exact: the decode graph's, unless the plan never loads it.
func exactRows(plan string, rows []int) int {
	if _, used := planGraphs(plan); used == graphswap.Prefill {
		return rows[0]
	}
	return rows[len(rows)-1]
}

// exactRows returns the width of each token after a prompt with [Options].Exact.
func (r *resolved) exactRows() int { return exactRows(r.Plan, r.Rows) }

// draftRows returns the most rows that one pass has for drafts and the tokens before
// them.
func (r *resolved) draftRows() int {
	if r.Exact {
		return min(r.partRows(), r.exactRows())
	}
	return r.partRows()
}

// CheckExact returns an error if no device can carry out [Options].Exact with a plan. With auto
// every graph then stays loaded. With a library that switches graphs itself, every graph is always
// available.
func CheckExact(plan string) error {
	name, _, _ := graphswap.CutSpare(plan)
	if name == "" || name == PlanAuto || plan == graphswap.PlanLibrary || !graphswap.Switches(name) {
		return nil
	}
	return noExactWidth(plan)
}

func noExactWidth(plan string) error {
	return fmt.Errorf("plan %s switches graphs, so tokens have no exact width: take %s, %s or %s, or give up the exact width",
		plan, PlanAuto, graphswap.PlanSeparate, graphswap.PlanResident)
}
