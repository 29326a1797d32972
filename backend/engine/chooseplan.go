package engine

import "github.com/sdnpu/sdnpu/graphswap"

// choosePlan lets graphswap choose among the plans of the graphs that were
// compiled: other widths or blocks, which may suit the prompt better, are not
// asked about. It goes by the lengths of earlier answers, and by how many of
// their tokens a pass gave.
func (e *Engine) choosePlan(s promptShape) (*foretold, error) {
	cost, held := e.costModel(), e.options.held(e.options.Costs)
	held.Spare = held.Spare && !e.costs.crowded()
	chooser := graphswap.NewPlanChooser(cost, graphswap.Setting{
		Accept: s.accept, ExpectedOutput: s.output, AllLogits: s.allLogits, Heads: e.head.rows, InOrder: !s.alone,
	}, held, s.before)
	choice, err := chooser.Choose(s.tokens, s.cached)
	if err != nil {
		return nil, err
	}
	choice.Plan.Reason = choice.Reason
	return &foretold{choice.Plan, choice.Problem, choice.Line, choice.Plan.Name == graphswap.PlanDescentInOrder}, nil
}

// held is what a session has of the graphs at hand by given costs: what fits, or
// where nothing is known of its memory one graph of each block and, until the
// device refuses it, a spare slot.
func (o Options) held(c *graphswap.Cost) graphswap.Config {
	held := graphswap.Config{Blocks: o.Blocks, Rows1: o.Rows[0], Rows2: o.partRows(), Residency: graphswap.OneGraph}
	if c == nil || c.Profile.Memory.WindowGB == 0 {
		held.Spare = true
		return held
	}
	fits := c.Configs(&graphswap.Setting{
		Blocks: []int{held.Blocks}, Rows1: []int{held.Rows1}, Rows2: []int{held.Rows2}, Context: o.Context * o.Sequences,
	})
	if len(fits) > 0 {
		return fits[0]
	}
	return held // too large by these costs: the device will say
}

// expect says what the answer to a request will be like: tokens, and how many of
// them a pass gives. No answer yet is 0.
func (e *Engine) expect(r *Request) (output, accept float64) {
	e.habitsMu.Lock()
	output, accept = e.habits.outputs, e.habits.accepted
	e.habitsMu.Unlock()
	if r.MaxTokens >= 0 && (output == 0 || output > float64(r.MaxTokens)) {
		output = max(float64(r.MaxTokens), 1)
	}
	return output, accept
}
