package graphswap

// exchange is a change to other widths beside the answers: where both graphs are
// resident and one more block fits, the loader, which has nothing to do while an
// answer is made, exchanges the graphs block by block. Every mixture of widths
// runs: its steps have the rows of the narrower graphs.
type exchange struct {
	to     Config
	leftMs float64 // of its loads; 0: nothing is exchanged
	// slower is what decode steps take at most while some blocks have the new
	// widths, over those on the old ones.
	slower float64
}

func (x *exchange) slowdown() float64 { return max(x.slower, 1) }

// hidden says that a change can be made beside answers.
func (c *Chooser) hidden(from, to Config) bool {
	return from.Residency == BothGraphs && from.Spare && to.Spare && from.Blocks == to.Blocks
}

// beside goes on with a change beside the answer that was made, which took so
// long, or decides on one for the next answer.
func (c *Chooser) beside(context int, decodeMs float64) {
	if x := &c.exchange; x.leftMs > 0 {
		if x.leftMs -= decodeMs; x.leftMs > 0 {
			return
		}
		c.config, c.exchange = x.to, exchange{}
	}
	if c.habits.count < hiddenEvidence {
		return
	}
	rates := c.rates(c.habits.turns, c.later(context))
	now := 0.0
	for i, cfg := range c.configs {
		if cfg == c.config {
			now = rates[i]
		}
	}
	best, most := c.config, 0.0
	for i, cfg := range c.configs {
		if !c.hidden(c.config, cfg) {
			continue
		}
		if saved := c.horizon()*(now-rates[i]) - changeShare*c.changed(c.config, cfg); saved > most {
			best, most = cfg, saved
		}
	}
	if best != c.config {
		c.exchange = c.exchangeTo(best, float64(c.later(context)))
	}
}

// exchangeTo begins a change beside answers at a context.
func (c *Chooser) exchangeTo(to Config, context float64) exchange {
	wide, narrow := max(to.Rows2, c.config.Rows2), min(to.Rows2, c.config.Rows2)
	step := c.cost.Pass(wide, context, to.Blocks, wide) + c.cost.Profile.CPU.DraftMs
	slow := max(c.cost.Profile.Load.Slowdown, 1)
	return exchange{
		to: to, leftMs: c.changed(c.config, to),
		slower: slow * step / c.setting.Tokens(narrow) / c.cost.PerToken(&c.setting, c.config, G2, context),
	}
}
