package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/graphswap"
)

// lossless tells for a report whether texts with and without drafts can differ on graphs of
// a shape, and how often the top token flips.
func (e *Engine) lossless(s *shape) Lossless {
	l := Lossless{Exact: s.exact, Flips: e.options.Flips}
	if l.Exact {
		l.Width = s.exactRows()
	}
	switch {
	case s.start != s.used:
		l.MeasuredOn = graphswap.PlanResident
	case s.used != graphswap.Both:
		l.MeasuredOn = s.plan
	}
	if _, compared := s.flipWidths(); len(compared) == 0 {
		l.Flips = &Flips{}
	}
	return l
}

// exactRows returns the graph width that computes each token after a prompt if Exact is
// set: the decode graph's, unless the plan never loads a decode graph.
func exactRows(plan string, rows []int) int {
	if _, used := planGraphs(plan); used == graphswap.Prefill {
		return rows[0]
	}
	return rows[len(rows)-1]
}

// CheckExact returns an error if no device can combine [Options].Exact with this plan.
// Plan auto is allowed, because with Exact it keeps every graph loaded. A plan by which
// QNN's library switches graphs itself is allowed, because every graph is always
// available.
func CheckExact(plan string) error {
	name, _, _ := graphswap.CutSpare(plan)
	if name == "" || name == PlanAuto || plan == graphswap.PlanLibrary || !graphswap.Switches(name) {
		return nil
	}
	return noExactWidth(plan)
}

func noExactWidth(plan string) error {
	return fmt.Errorf("plan %s switches graphs, so the graph width of a token is not known in advance: choose plan %s, %s or %s, or turn exact off",
		plan, PlanAuto, graphswap.PlanSeparate, graphswap.PlanResident)
}
