package graphswap

import "fmt"

// baselines says what stands behind the plans that are there to be compared with.
var baselines = map[string]string{
	PlanG1:             "baseline: nothing is exchanged, decode passes run padded on the long graphs",
	PlanG2:             "nothing is exchanged: prompts run on the short graphs too",
	PlanSync:           "baseline: everything is loaded after the prefill",
	PlanLazy:           "baseline: as the vendor's own switching, each load inside the first execute that needs it",
	PlanNaive:          "baseline: each block is loaded when it is through with the last chunk",
	PlanGreedy:         "baseline: the published rule, from the first step on",
	PlanDeferred:       "baseline: the published rule, begun as late as it pays",
	PlanDescentInOrder: "baseline: the planner held to the papers' order, chunk by chunk",
	PlanExactInOrder:   "reference: the best plan in the papers' order, chunk by chunk",
	PlanBoth:           "both graphs of every block are resident, their weights twice",
	PlanShared:         "both graphs of every block are resident and share their weights",
}

// Reason says in one sentence why a timeline is as it is.
func (t *Timeline) Reason(p *Problem) string {
	reason := baselines[t.Plan.Name]
	if reason == "" {
		reason = t.why(p)
	}
	if session := t.PeakBytes - p.HostBytes; p.WindowBytes > 0 && session > p.WindowBytes {
		reason += fmt.Sprintf("; needs %.2f GB of a session of %.2f GB and cannot run", float64(session)*1e-9, float64(p.WindowBytes)*1e-9)
	}
	return reason
}

// why is the reason of a plan that was searched for.
func (t *Timeline) why(p *Problem) string {
	order := "chunk by chunk"
	if t.Plan.Window > 1 {
		order = fmt.Sprintf("up to %d chunks go through a block before the next one", t.Plan.Window)
	}
	early := 0
	for _, first := range t.Plan.First {
		if first < len(t.Plan.Chunks) {
			early++
		}
	}
	io, npu := p.lanes()
	limit := "the last load stays exposed"
	switch {
	case len(t.Plan.Loads) == 0:
		return "nothing is exchanged: the loads cost more than the short graphs"
	case t.ExposedMs <= slack:
		limit = "every load is hidden"
	case io > npu && t.SwitchEndMs <= io+slack:
		limit = "the loader never pauses and takes longer than the prefill"
	case t.SwitchEndMs <= t.PrefillMs+slack:
		limit = "the last loads hide behind a few runs on the short graphs"
	}
	return fmt.Sprintf("%s, %d of %d blocks switch before their last chunk: %s", order, early, t.Plan.Blocks, limit)
}
