package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/report"
)

// resident describes the graphs of a request during which all graphs stayed loaded.
func (e *Engine) resident() *report.Resident {
	s := e.shape()
	name := s.ResidencyName(e.dev.Capabilities())
	return &report.Resident{
		Name: name, Reason: s.StayReason(name), Blocks: s.Blocks, Widths: s.Rows, Costs: s.Costs, Heads: e.head().runs, Bytes: e.Memory().Total(),
	}
}

// runs returns the widths of the head's graphs that compute n rows, one after the
// other.
func (h *head) runs(n int) (widths []int) {
	for n > 0 {
		_, rows := h.fitting(n)
		widths = append(widths, rows)
		n -= rows
	}
	return widths
}
