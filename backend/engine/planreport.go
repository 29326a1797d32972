package engine

import (
	"cmp"

	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/graphswap"
)

// PlanReport describes what a switch plan has done until the end of the request.
type PlanReport struct {
	// Name is the name of the plan, and Reason the reason why it was chosen. Costs is
	// the source of the times from which the plan is computed.
	Name, Reason, Costs string
	// Spare is set if the plan could use a spare graph slot.
	Spare bool
	// Switches is the number of graphs that the plan run has loaded.
	Switches int
	// Timeline lists the loads, frees and executes of the plan. The times of Timeline
	// count from the start of the prompt. Predicted is the timeline that was forecast
	// for the plan, or nil. Problem is the planning problem that the plan solves.
	Timeline  graphswap.Timeline
	Predicted *graphswap.Timeline
	Problem   *graphswap.Problem
	// Failed is the text of the error if loads failed, and otherwise empty.
	Failed string
}

// planReport returns the plan, the forecast and the timeline of a plan run up to now,
// or nil if there is no plan run.
func (e *Engine) planReport(x *residency.Run) *PlanReport {
	if x == nil {
		return nil
	}
	r := &PlanReport{
		Name: x.Plan.Name, Reason: e.planReason(x), Costs: x.Costs().Source(), Spare: x.Plan.Spare,
		Timeline: x.Log.Snapshot(x.Forecast.Problem), Predicted: x.Forecast.Timeline, Problem: x.Forecast.Problem,
	}
	var err error
	if r.Switches, err = x.Outcome(); err != nil {
		r.Failed = err.Error()
	}
	x.TeachCosts(&r.Timeline)
	return r
}

// planReason explains why a plan run has its plan, and names the source of the plan's
// times.
func (e *Engine) planReason(x *residency.Run) string {
	reason := cmp.Or(x.Reason, x.Plan.Reason)
	if x.Forecast.InOrder {
		why := "chunks go through all blocks one by one, because other requests are under way whose rows can then go along"
		if reason == "" {
			reason = why
		} else {
			reason += "; " + why
		}
	}
	if line := x.Forecast.Timeline; reason == "" && line != nil {
		reason = line.Reason(x.Forecast.Problem)
	}
	if source := x.Costs().Source(); source != "" && x.Plan.Reason == "" { // if the plan has a reason, the reason already names the source of the times
		reason += "; planned " + source
	}
	return reason
}

// residentReport returns the plan report of a request during which all graphs stayed
// loaded. residentReport lists the prompt's passes, each through all blocks. If the
// engine has measured its graphs, the plan report also has a forecast.
func (g *generation) residentReport() *PlanReport {
	e := g.engine
	f := e.graphs.Load()
	s, name := f.shape, f.shape.residencyName(e.dev.Capabilities())
	passes := g.report.PromptPasses
	if len(passes) == 0 {
		return nil
	}
	plan := &graphswap.Plan{
		Name: name, Blocks: s.blocks, PrefillRows: s.rows[0], DecodeRows: s.rows[len(s.rows)-1],
		Reason: s.stayReason(name),
	}
	log := residency.NewRecorder(passes[0].Began, plan)
	r := &PlanReport{Name: plan.Name, Reason: plan.Reason}
	if s.costs.Measured() {
		r.Costs = s.costs.Source()
		r.Predicted = &graphswap.Timeline{Source: graphswap.Simulated, Kind: graphswap.Measured, Plan: plan}
	}
	done, predicted := 0.0, 0.0
	for i, p := range passes {
		task := graphswap.Task{
			Lane: graphswap.NPU, Kind: graphswap.Run, StartMs: log.At(p.Began), EndMs: log.At(p.Began.Add(p.Pass)), Block: -1, Index: -1,
			Variant: graphswap.Decode, Chunk: i, Runs: s.blocks, Rows: p.Width, Valid: p.Rows,
		}
		if p.Device > 0 {
			task.StartMs, task.EndMs = done, done+residency.Milliseconds(p.Device)
		}
		if p.Width == plan.PrefillRows {
			task.Variant = graphswap.Prefill
		}
		done = task.EndMs
		log.Add(task)
		if r.Predicted != nil {
			task.StartMs, task.EndMs = predicted, predicted+s.costs.PassMs(p.Width, e.head().runs(p.Logits))
			predicted = task.EndMs
			r.Predicted.Tasks = append(r.Predicted.Tasks, task)
		}
	}
	addDecode(log, g.report.Verifications, g.report.CPU, s.blocks, plan.PrefillRows)
	r.Timeline = log.Timeline()
	for _, t := range []*graphswap.Timeline{&r.Timeline, r.Predicted} {
		if t != nil {
			t.SumResident(e.Memory().total())
		}
	}
	return r
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
