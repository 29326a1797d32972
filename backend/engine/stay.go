package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/report"
	"github.com/sdnpu/sdnpu/graphswap"
)

// resident describes the graphs of a request during which all graphs stayed loaded.
func (e *Engine) resident() *report.Resident {
	s := e.shape()
	name := s.residencyName(e.dev.Capabilities())
	return &report.Resident{
		Name: name, Reason: s.stayReason(name), Blocks: s.blocks, Widths: s.rows, Costs: s.costs, Heads: e.head().runs, Bytes: e.Memory().Total(),
	}
}

// stayReason explains why no graphs were switched for a prompt. name is the name of the
// plan that the explanation shows to users.
func (s *shape) stayReason(name string) string {
	switch {
	case s.planned():
		return "no plan was made for the prompt: it ran on the graphs that were there"
	case s.reason != "":
		return s.reason
	case name == graphswap.PlanResident:
		return "all graphs of every block are in the device, which stores their weights once"
	}
	return "all graphs of every block are in the device, each with its weights"
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
