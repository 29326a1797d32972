package graphswap

import "fmt"

// Idle is what a session loads while nobody asks it anything: the long graphs for
// the next prompt, or other widths.
type Idle struct {
	Config Config
	// Loads run in their order, as far as the time reaches: a request ends them at
	// the end of a load, and what is resident then is what the next plan begins
	// with. Their After is -1.
	Loads  []Load
	Ms     float64 // of all loads
	Bytes  int64
	Reason string // one sentence
}

// IdleAfterMs is how long nobody has asked before anything is loaded.
const IdleAfterMs = 2000

// idleGain is the share of a turn that a load in idle time must save.
const idleGain = 0.05

// Idle says what to load before the next turn, as far as it can be foreseen from
// those that were, or nil where nothing saves a share of their time. It changes
// nothing; see [Chooser.Idled].
func (c *Chooser) Idle(cached int) (*Idle, error) {
	if c.free || c.config.Residency != OneGraph || len(c.habits.turns) == 0 {
		return nil, nil
	}
	now, err := c.turnsFrom(c.config, c.resident, cached)
	if err != nil {
		return nil, err
	}
	var best *Idle
	least := now * (1 - idleGain)
	for _, cfg := range c.configs {
		for _, g := range []Graph{G1, G2} {
			idle, err := c.idleFor(cfg, g)
			if err != nil {
				return nil, err
			}
			after := make([]Graph, cfg.Blocks)
			for b := range after {
				after[b] = g
			}
			ms, err := c.turnsFrom(cfg, after, cached)
			if err != nil {
				return nil, err
			}
			if len(idle.Loads) > 0 && ms < least {
				best, least = idle, ms
				best.Reason = fmt.Sprintf("turns like the last ones take %.0f instead of %.0f ms from graphs of %d rows", ms, now, cfg.rows(g))
			}
		}
	}
	return best, nil
}

// turnsFrom is what turns like the last ones take on average from what is
// resident in a configuration.
func (c *Chooser) turnsFrom(cfg Config, resident []Graph, cached int) (ms float64, err error) {
	for _, turn := range c.habits.turns {
		choice, err := c.best(cfg, resident, turn.prompt, cached)
		if err != nil {
			return 0, err
		}
		ms += c.turn(choice, c.expected()) / float64(len(c.habits.turns))
	}
	return ms, nil
}

// idleFor are the loads to one graph of every block of a configuration, the first
// block first: it is needed first.
func (c *Chooser) idleFor(cfg Config, g Graph) (*Idle, error) {
	p, err := c.cost.TurnProblem(&c.setting, cfg, nil, 1, 0)
	if err != nil {
		return nil, err
	}
	idle := &Idle{Config: cfg}
	for b, kept := range c.kept(cfg) {
		if kept&g == 0 {
			l := Load{Block: b, Graph: g, After: -1}
			idle.Loads = append(idle.Loads, l)
			idle.Ms += p.load(l)
			idle.Bytes += p.Bytes[g-1][b]
		}
	}
	return idle, nil
}

// Idled says how many of the loads were done.
func (c *Chooser) Idled(idle *Idle, loads int) {
	c.resident, c.config, c.idled = c.kept(idle.Config), idle.Config, loads > 0
	for i, l := range idle.Loads {
		if i < loads {
			c.resident[l.Block] = l.Graph
		}
	}
}

// Within is how many of the loads end within a time, by their costs. A change of
// widths or blocks is all or nothing: what is half done would have to be loaded
// before the next turn could begin.
func (c *Chooser) Within(idle *Idle, ms float64) int {
	if idle.Ms <= ms {
		return len(idle.Loads)
	}
	if idle.Config != c.config {
		return 0
	}
	each := idle.Ms / float64(len(idle.Loads))
	return max(int(ms/each), 0)
}
