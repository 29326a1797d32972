package graphswap

import (
	"math"
	"slices"
)

// exchange is a change to other widths beside a session's turns: where both
// graphs are resident and one more block fits, the loader, which has nothing to do
// otherwise, exchanges the graphs block by block. Every mixture of widths runs: a
// block takes what it takes in its configuration, and steps have the rows of the
// narrower graphs.
type exchange struct {
	from, to        Config
	totalMs, leftMs float64 // of its loads; nothing left: nothing is exchanged
}

// hidden says that a change can be made beside turns.
func (c *Chooser) hidden(from, to Config) bool {
	return from.Residency == BothGraphs && from.Spare && to.Spare && from.Blocks == to.Blocks
}

// olds are the shares of blocks that may have the old widths while a time of the
// exchange passes, the most and the least: a block changes when its load ends.
func (x *exchange) olds(leftMs, ms float64) [2]float64 {
	blocks := float64(x.to.Blocks)
	return [2]float64{
		min(math.Ceil(leftMs/x.totalMs*blocks)/blocks, 1),
		math.Floor(max(leftMs-ms, 0)/x.totalMs*blocks) / blocks,
	}
}

// mixed is what takes the longest of the mixtures that there are meanwhile.
func mixed(olds [2]float64, before, after float64) (most float64) {
	for _, old := range olds {
		most = max(most, old*before+(1-old)*after)
	}
	return most
}

// Prefill is what a choice takes until its answer begins, switching included.
func (c *Chooser) Prefill(choice *Choice) float64 {
	ms, x := choice.Line.SwitchEndMs, &choice.exchange
	if x.leftMs <= 0 {
		return ms
	}
	after := choice.after.Line.SwitchEndMs
	slow := max(c.cost.Profile.Load.Slowdown, 1)
	return slow * mixed(x.olds(x.leftMs, slow*max(ms, after)), ms, after)
}

// Decode is what a choice's answer of so many tokens takes.
func (c *Chooser) Decode(choice *Choice, output float64) float64 {
	x := &choice.exchange
	context := float64(choice.cached+choice.prompt) + output/2
	_, now := c.step(choice, context)
	if x.leftMs <= 0 {
		return output * now
	}
	_, after := c.step(choice.after, context)
	left := x.leftMs - c.Prefill(choice)
	if left <= 0 {
		return output * after
	}
	meanwhile := c.meanwhile(choice, left, output, now, after)
	if output*meanwhile <= left {
		return output * meanwhile
	}
	return left + (output-left/meanwhile)*after
}

// meanwhile is what a token takes at most while so much of an exchange is left,
// where one takes so long before and after it.
func (c *Chooser) meanwhile(choice *Choice, leftMs, output, now, after float64) float64 {
	from, to := choice.Config.Rows2, choice.exchange.to.Rows2
	slow := max(c.cost.Profile.Load.Slowdown, 1)
	if from == to {
		return slow * now
	}
	// Steps take what their blocks take, and yield what the narrow graphs do.
	now, after = now*c.setting.Tokens(from), after*c.setting.Tokens(to)
	each := slow / c.setting.Tokens(min(from, to))
	return each * mixed(choice.exchange.olds(leftMs, output*each*max(now, after)), now, after)
}

// exchanging is the best plan of a turn where both graphs are resident, and what
// is exchanged beside it.
func (c *Chooser) exchanging(prompt, cached int) (*Choice, error) {
	turns, err := c.withTurn(prompt, cached)
	if err != nil {
		return nil, err
	}
	x, cfg := c.beside(turns, c.later(cached+prompt)), c.config
	if x.leftMs > 0 {
		cfg = x.from
	}
	choice, err := c.best(cfg, steady(cfg), prompt, cached)
	if err != nil {
		return nil, err
	}
	if choice.exchange = x; x.leftMs > 0 {
		choice.after, err = c.best(x.to, steady(x.to), prompt, cached)
	}
	return choice, err
}

// exchanged goes on with a choice's exchange by the time of its turn.
func (c *Chooser) exchanged(choice *Choice, output float64) {
	if c.exchange = choice.exchange; c.exchange.leftMs <= 0 {
		return
	}
	if c.exchange.leftMs -= c.Prefill(choice) + c.Decode(choice, output); c.exchange.leftMs <= 0 {
		c.adopt(c.exchange.to)
		c.exchange = exchange{}
	}
}

// beside is the exchange that goes on beside a turn: the one that was begun, its
// way back, or one to what the turns so far lost the most for.
func (c *Chooser) beside(turns []habit, context int) exchange {
	if x := c.exchange; x.leftMs > 0 {
		now := c.config
		c.config = x.to
		done := x.totalMs - x.leftMs
		regretted := c.gains(turns, context, x.from, done) > 0
		if c.config = now; regretted {
			return exchange{from: x.to, to: x.from, totalMs: x.totalMs, leftMs: done}
		}
		return x
	}
	best, most := c.config, 0.0
	for _, cfg := range c.configs {
		if !c.hidden(c.config, cfg) {
			continue
		}
		if gain := c.gains(turns, context, cfg, c.changed(c.config, cfg)); gain > most {
			best, most = cfg, gain
		}
	}
	if best == c.config {
		return exchange{}
	}
	loads := c.changed(c.config, best)
	return exchange{from: c.config, to: best, totalMs: loads, leftMs: loads}
}

// gains is what turns to come save in another configuration, behind loads beside
// them; nothing where the turns so far lost too little.
func (c *Chooser) gains(turns []habit, context int, to Config, loadMs float64) float64 {
	i := slices.Index(c.configs, to)
	if c.account(turns, i) < lostBeside*loadMs {
		return 0
	}
	rates := c.rates(turns, context)
	return c.horizon()*(rates[slices.Index(c.configs, c.config)]-rates[i]) - lostBeside*loadMs
}
