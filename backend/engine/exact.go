package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/sdnpu/sdnpu/graphswap"
)

// lossless tells for a report whether texts with and without drafts can differ on graphs of
// a shape, and how often the top token flips.
func (e *Engine) lossless(s *settings.Shape) Lossless {
	l := Lossless{Exact: s.Exact, Flips: e.options.Flips}
	if l.Exact {
		l.Width = s.ExactRows()
	}
	switch {
	case s.Start != s.Used:
		l.MeasuredOn = graphswap.PlanResident
	case s.Used != graphswap.Both:
		l.MeasuredOn = s.Plan
	}
	if _, compared := s.FlipWidths(); len(compared) == 0 {
		l.Flips = &Flips{}
	}
	return l
}
