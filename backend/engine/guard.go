package engine

import "math"

// guard.go applies the guard of automatic drafts (draft.Mode.Auto): it tells a pass
// what drafts may cost, and counts what they cost and saved. All times are in seconds
// on the device's clock, as [Policy].PassTime expects them.

// passCost holds the expected time of a pass, and the times with which the guard
// compares it.
type passCost struct {
	// took is the time with drafts, and plain the time without them.
	took, plain float64
	// saved is the time of the pass that one accepted draft makes unnecessary.
	saved float64
	// drafting is the time of the request's work on drafts since its last pass.
	drafting float64
}

// of returns the time that a request's rows of the pass would take without drafts, and
// the time that they take with drafts. Each accepted draft saves a pass.
func (c passCost) of(accepted int) (plain, took float64) {
	return c.plain + float64(accepted)*c.saved, c.took + c.drafting
}

// countDrafting adds the request's work on drafts since its last pass to the cost of the
// pass. On a simulated device, the work on drafts costs its processor time, because
// other load of the host must not change the engine's decisions.
func (g *generation) countDrafting(o *passOutput) {
	spent := g.report.Drafting
	if g.engine.clock.Simulated() {
		spent = g.report.DraftingCPU
	}
	o.cost.drafting = (spent - g.counted).Seconds()
	g.counted = spent
}

// costOf returns the cost of a pass with these rows.
func (e *Engine) costOf(list []taskRows) (c passCost) {
	if !e.options.Draft.Auto {
		return c
	}
	tokens, drafts := 0, 0
	for _, s := range list {
		tokens, drafts = tokens+s.n, drafts+s.drafts
	}
	c.plain = e.passSeconds(tokens)
	c.took = c.plain
	if drafts > 0 {
		c.took = e.passSeconds(tokens + drafts)
	}
	c.saved = min(c.plain, e.passSeconds(len(list)))
	return c
}

// account adds a pass to the request's account of time lost and saved by drafts. The
// allowed loss is a share of the decoding time, so a pass of the prompt adds to the
// account only the time that it lost.
func (g *generation) account(o *passOutput, decoded bool) {
	g.countDrafting(o)
	plain, took := o.cost.of(o.accepted)
	if o.rows.guest { // other requests have made the pass wider, so the loss is charged to them
		plain += o.cost.took - o.cost.plain
	}
	if decoded {
		g.item.account.Add(plain, took)
	} else {
		g.item.account.Loss += took - plain
	}
}

// passSeconds returns the expected time of the narrowest pass that holds n rows.
func (e *Engine) passSeconds(n int) float64 {
	return e.policy.PassTime(e.shape().WidthFor(n)).Seconds()
}

// rooms returns, for each request of a pass, the largest time that the pass may lose if all
// its drafts are wrong and the request's drafts have made the pass wider.
func (e *Engine) rooms(list []taskRows) []float64 {
	rooms := make([]float64, len(list))
	for i, s := range list {
		if rooms[i] = math.Inf(1); e.options.Draft.Auto {
			rooms[i] = e.guard.Room(&s.item.account, len(list))
		}
	}
	return rooms
}

// learnFromPass counts a pass that all its requests have settled. The caller of
// learnFromPass holds the device lock.
func (e *Engine) learnFromPass(outputs []*passOutput) {
	for _, o := range outputs {
		if !o.verified {
			continue
		}
		if len(o.scores) > 0 {
			e.trust.Observe(o.scores, o.right)
		}
		if e.options.Draft.Auto {
			e.guard.Add(o.cost.of(o.accepted))
		}
	}
	e.overdrawn.Store(e.guard.Exceeded())
}

// resting reports whether the request proposes no drafts, because even the work on them
// costs more than the guard allows.
func (g *generation) resting() bool {
	return g.engine.options.Draft.Auto && (g.item.account.Exceeded() || g.engine.overdrawn.Load())
}
