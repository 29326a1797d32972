package engine

import (
	"github.com/sdnpu/sdnpu/graphswap"
)

// residentReport tells of a request none of whose graphs were exchanged, because
// all of them stay or no plan was made: the prompt's passes, each through all
// blocks, and where graphs were measured what the passes were to take.
func (g *generation) residentReport() *PlanReport {
	e := g.engine
	passes := g.report.PromptPasses
	if len(passes) == 0 {
		return nil
	}
	plan := &graphswap.Plan{
		Name: e.residencyName(), Blocks: e.options.Blocks, Rows1: e.options.Rows[0], Rows2: e.options.Rows[len(e.options.Rows)-1],
		Reason: e.stay(),
	}
	log := newRecorder(passes[0].Began, plan)
	r := &PlanReport{Name: plan.Name, Reason: plan.Reason}
	if e.costs != nil && e.costs.given == nil {
		r.Costs = e.costs.source()
		r.Predicted = &graphswap.Timeline{Source: graphswap.Simulated, Kind: graphswap.Measured, Plan: plan}
	}
	done, told := 0.0, 0.0
	for i, p := range passes {
		task := graphswap.Task{
			Lane: graphswap.NPU, Kind: graphswap.Run, StartMs: log.at(p.Began), EndMs: log.at(p.Began.Add(p.Pass)), Block: -1, Index: -1,
			Graph: graphswap.G2, Chunk: i, Runs: e.options.Blocks, Rows: p.Width, Valid: p.Rows,
		}
		if p.Device > 0 {
			task.StartMs, task.EndMs = done, done+milliseconds(p.Device)
		}
		if p.Width == plan.Rows1 {
			task.Graph = graphswap.G1
		}
		done = task.EndMs
		log.add(task)
		if r.Predicted != nil {
			task.StartMs, task.EndMs = told, told+e.costs.pass(p.Width, e.head.runs(p.Logits))
			told = task.EndMs
			r.Predicted.Tasks = append(r.Predicted.Tasks, task)
		}
	}
	log.behind(g.report.Verifications, g.report.CPU, e.options.Blocks, plan.Rows1)
	r.Timeline = log.timeline
	for _, t := range []*graphswap.Timeline{&r.Timeline, r.Predicted} {
		if t != nil {
			t.SumResident(e.Memory().total())
		}
	}
	return r
}

// stay says why graphs stay.
func (e *Engine) stay() string {
	switch {
	case e.lanes != nil:
		return "no plan was made for the prompt: it ran on the graphs that were there"
	case e.decision != "":
		return e.decision
	case e.residencyName() == graphswap.PlanShared:
		return "all graphs of every block are in the device, which stores their weights once"
	}
	return "all graphs of every block are in the device, each with its weights"
}

// runs are the widths of the head's runs for n rows.
func (h *head) runs(n int) (widths []int) {
	for n > 0 {
		_, rows := h.fitting(n)
		widths = append(widths, rows)
		n -= rows
	}
	return widths
}

// pass is what a pass through all blocks takes, in milliseconds, with the head's
// runs.
func (c *costs) pass(width int, heads []int) (ms float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.blocks {
		ms += b.at(width).RunMs
	}
	for _, rows := range heads {
		ms += c.head.Widths[rows].RunMs
	}
	return ms
}
