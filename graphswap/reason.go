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

// reason says in one sentence why a choice was made.
func (c *Chooser) reason(choice *Choice) string {
	cfg, window := choice.Config, float64(choice.Problem.WindowBytes)*1e-9
	switch cfg.Residency {
	case SharedPair:
		return fmt.Sprintf("graphs of %d and %d rows share their weights and fit into %.2f GB, so nothing is exchanged", cfg.Rows1, cfg.Rows2, window)
	case BothGraphs:
		return fmt.Sprintf("graphs of %d and %d rows fit side by side into %.2f GB, so nothing is exchanged", cfg.Rows1, cfg.Rows2, window)
	}
	one := fmt.Sprintf("only one of the two graphs fits into %.2f GB, and ", window)
	if choice.Problem.WindowBytes == 0 {
		one = "one of the two graphs is kept where nothing is known of memory, and "
	}
	switch {
	case choice.Plan.Before[0] == None:
		return one + fmt.Sprintf("graphs of %d and %d rows will have saved more than their loads if turns stay as they are", cfg.Rows1, cfg.Rows2)
	case len(choice.Plan.Loads) == 0 && choice.Plan.Before[0]&G2 != 0:
		return one + fmt.Sprintf("for %d tokens the graphs of %d rows beat loading those of %d", choice.prompt, cfg.Rows2, cfg.Rows1)
	case len(choice.Plan.Loads) == 0:
		return one + fmt.Sprintf("an answer of some %.0f tokens is not worth a load", c.expected())
	}
	return one + fmt.Sprintf("%d tokens are worth %d loads in %d blocks, %.0f ms of them exposed",
		choice.prompt, len(choice.Plan.Loads), cfg.Blocks, max(choice.Line.ExposedMs, 0))
}
