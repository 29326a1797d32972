package graphswap

import (
	"math"
	"slices"
)

// nearRegret is how far behind the least regret a configuration may be and still
// be chosen for what it takes for the first turn.
const nearRegret = 0.005

// contextGrain is how finely contexts are told apart where kinds of conversations
// are weighed.
const contextGrain = 256

// first chooses for the first turn, of which nothing is resident: one of the
// configurations that conversations of all kinds regret least.
func (c *Chooser) first(prompt, cached int) (*Choice, error) {
	regret, err := c.regrets(prompt)
	if err != nil {
		return nil, err
	}
	var best *Choice
	least := math.Inf(1)
	for i, cfg := range c.configs {
		if regret[i] > slices.Min(regret)+nearRegret {
			continue
		}
		starts := [][]Graph{steady(cfg)}
		if cfg.Residency == OneGraph {
			starts = append(starts, slices.Repeat([]Graph{G1}, cfg.Blocks))
		}
		for _, resident := range starts {
			choice, err := c.best(cfg, resident, prompt, cached)
			if err != nil {
				return nil, err
			}
			if total := c.turn(choice, c.expected()); total < least-closer {
				best, least = choice, total
			}
		}
	}
	return best, nil
}

// regrets is per configuration by how much conversations that begin with it take
// longer than in the one that is best for them, on average over all kinds: those
// that stay like this prompt among them. A conversation leaves a bad
// configuration once its turns are known, where that pays.
func (c *Chooser) regrets(prompt int) ([]float64, error) {
	regrets := make([]float64, len(c.configs))
	for _, kind := range append([]int{prompt}, usual.prompts...) {
		kind := c.bounded(kind)
		for _, output := range usual.outputs {
			context := prompt + int(conversation/2*(float64(kind)+output))
			context = min(context, c.setting.Context*3/4) / contextGrain * contextGrain
			turns, err := c.prefills(kind, context)
			if err != nil {
				return nil, err
			}
			for i := range turns {
				turns[i] += output * c.perToken(i, float64(context))
			}
			best := slices.Index(turns, slices.Min(turns))
			for i, ms := range turns {
				leave := c.leaves(c.configs[i], c.configs[best], ms, turns[best])
				regrets[i] += (leave/(conversation*turns[best]) - 1) / float64(len(usual.outputs)*(1+len(usual.prompts)))
			}
		}
	}
	return regrets, nil
}

// leaves is what a conversation takes that begins in one configuration, where its
// turns take so long, and changes to a better one when its turns are known, or
// stays.
func (c *Chooser) leaves(from, to Config, turn, better float64) float64 {
	change, known := c.changed(from, to), learned
	if c.hidden(from, to) {
		// Loads go on beside as many turns as they take.
		known, change = min(known+change/max(turn, closer), conversation), 0
	}
	return min(conversation*turn, known*turn+change+(conversation-known)*better)
}
