package graphswap

import (
	"fmt"
	"math"
	"slices"
)

// Choice is a turn's plan and why.
type Choice struct {
	Config Config
	Plan   *Plan
	Line   *Timeline // as foretold
	// Problem is what both are reckoned by.
	Problem *Problem
	// Verify is the rows of a decode step, one or more passes.
	Verify int
	Reason string // one sentence

	prompt, cached int
	exchange       exchange // that goes on beside the turn
	after          *Choice  // the turn on the widths that are exchanged for
}

// Chooser decides for a session: each turn's plan and, where not all graphs fit,
// which ones are kept. It learns from the turns: see [Chooser.Done].
type Chooser struct {
	cost     *Cost
	setting  Setting
	configs  []Config // what fits, in the best residency
	config   Config
	begun    bool // the first turn was run
	idled    bool // what is resident was loaded for the turn to come
	free     bool // all widths are resident: each turn picks its own pair
	resident []Graph
	habits   habits
	exchange exchange
	known    map[turnKey][]Choice
}

// turnKey is what a turn's plan depends on.
type turnKey struct {
	config         Config
	prompt, cached int
	resident       string
}

// NewChooser is a chooser for a session that has nothing resident yet.
func NewChooser(cost *Cost, s Setting) (*Chooser, error) {
	c := &Chooser{cost: cost, setting: s, configs: cost.Configs(&s), known: map[turnKey][]Choice{}}
	if len(c.configs) == 0 {
		return nil, fmt.Errorf("graphswap: %w: %s on %s with a context of %d", ErrMemory, cost.Name, cost.Profile.ID, s.Context)
	}
	c.free = cost.allFit(&s, c.configs[0])
	prior, err := c.prior()
	if err != nil {
		return nil, err
	}
	c.habits.prior = prior
	rates := c.rates(nil, s.Context/2)
	c.adopt(c.configs[slices.Index(rates, slices.Min(rates))])
	return c, nil
}

// NewPlanChooser is a chooser for a session whose graphs are there: partition,
// widths and residency stay as they are, and each turn gets the best of their
// plans, beginning with what is resident.
func NewPlanChooser(cost *Cost, s Setting, held Config, resident []Graph) *Chooser {
	return &Chooser{
		cost: cost, setting: s, configs: []Config{held}, config: held, begun: true,
		resident: slices.Clone(resident), known: map[turnKey][]Choice{},
	}
}

// adopt changes to a configuration of which nothing else than its steady state
// is resident.
func (c *Chooser) adopt(cfg Config) {
	c.config = cfg
	c.resident = steady(cfg)
}

// steady is what a configuration has resident between turns.
func steady(cfg Config) []Graph {
	g := Both
	if cfg.Residency == OneGraph {
		g = G2
	}
	return slices.Repeat([]Graph{g}, cfg.Blocks)
}

// Config is the configuration in use.
func (c *Chooser) Config() Config { return c.config }

// Resident is what the chooser takes to be resident. Before the first turn that
// is a guess: its choice says what to load, in its plan's Before.
func (c *Chooser) Resident() []Graph { return slices.Clone(c.resident) }

// SetResident says what is resident, where something else than Done changed it.
func (c *Chooser) SetResident(now []Graph) { c.resident, c.begun = slices.Clone(now), true }

// turn is what a choice takes with an answer of some length.
func (c *Chooser) turn(choice *Choice, output float64) float64 {
	context := float64(choice.cached+choice.prompt) + output/2
	_, perToken := c.step(choice, context)
	return choice.Line.SwitchEndMs + output*perToken
}

// step is the rows of a choice's decode steps at a context and what a token of
// the answer takes: by the formulas, or where blocks were measured as a pass
// through them did.
func (c *Chooser) step(choice *Choice, context float64) (verify int, perToken float64) {
	cfg, g := choice.Config, decodes(choice.Plan)
	rows := cfg.rows(g)
	if len(c.cost.Model.Blocks) != cfg.Blocks {
		return c.cost.verified(&c.setting, rows, c.cost.Pass(rows, context, cfg.Blocks, rows))
	}
	pass := 0.0
	for _, block := range choice.Problem.Verify[g-1] {
		pass += block
	}
	return c.cost.verified(&c.setting, rows, pass)
}

// decodes is the graph on which a plan's decode passes run.
func decodes(p *Plan) Graph {
	for _, g := range p.After {
		if g&G2 == 0 {
			return G1
		}
	}
	return G2
}

// Choose returns the plan of a turn with so many new tokens behind so many
// cached ones, from what is resident. It changes nothing.
func (c *Chooser) Choose(prompt, cached int) (*Choice, error) {
	switch {
	case c.free:
		return c.anyPair(prompt, cached)
	case len(c.configs) == 1:
		return c.best(c.config, c.resident, prompt, cached)
	case !c.begun:
		return c.first(prompt, cached)
	case c.config.Residency != OneGraph:
		return c.exchanging(prompt, cached)
	case c.idled:
		return c.best(c.config, c.resident, prompt, cached)
	}
	return c.worth(prompt, cached)
}

// anyPair chooses among the pairs of the partition, which are all resident.
func (c *Chooser) anyPair(prompt, cached int) (*Choice, error) {
	var best *Choice
	for _, cfg := range c.configs {
		if cfg.Blocks != c.config.Blocks {
			continue
		}
		choice, err := c.best(cfg, c.resident, prompt, cached)
		if err != nil {
			return nil, err
		}
		if best == nil || c.turn(choice, c.expected()) < c.turn(best, c.expected())-closer {
			best = choice
		}
	}
	return best, nil
}

// reverseGain is the share of a prefill that a way back to the long graphs must
// save: below it the short ones stay, and no byte is read.
const reverseGain = 0.02

// best is the best plan of a turn in one configuration, for the answer that is
// expected.
func (c *Chooser) best(cfg Config, resident []Graph, prompt, cached int) (*Choice, error) {
	all, err := c.plans(cfg, resident, prompt, cached)
	if err != nil {
		return nil, err
	}
	best, stay := -1, -1
	least := math.Inf(1)
	for i := range all {
		if total := c.turn(&all[i], c.expected()); total < least-closer {
			best, least = i, total
		}
		if all[i].Plan.Name == PlanG2 && len(all[i].Plan.Loads) == 0 {
			stay = i
		}
	}
	if stay >= 0 && c.turn(&all[stay], c.expected()) < least+reverseGain*all[best].Line.SwitchEndMs {
		best = stay
	}
	choice := all[best] // a copy: its reason is of now
	context := float64(cached+prompt) + c.expected()/2
	choice.Verify, _ = c.step(&choice, context)
	choice.Reason = c.reason(&choice)
	return &choice, nil
}

// plans are the plans of a turn in one configuration that may be the best one, by
// how long the answer will be.
func (c *Chooser) plans(cfg Config, resident []Graph, prompt, cached int) ([]Choice, error) {
	key := turnKey{cfg, prompt, cached, residentKey(resident)}
	if all := c.known[key]; all != nil {
		return all, nil
	}
	p, err := c.cost.TurnProblem(&c.setting, cfg, resident, prompt, cached)
	if err != nil {
		return nil, err
	}
	names := []string{PlanDescent, PlanG1, PlanG2}
	switch {
	case cfg.Residency == SharedPair:
		names = []string{PlanShared}
	case cfg.Residency == BothGraphs:
		names = []string{PlanBoth}
	case c.setting.InOrder:
		names[0] = PlanDescentInOrder
	}
	var all []Choice
	for _, name := range names {
		for _, spare := range []bool{false, true} {
			if spare && !(cfg.Spare && Switches(name)) {
				continue // a slot that is there need not be used
			}
			plan, err := p.Make(name, spare)
			if err != nil {
				return nil, err
			}
			line, err := Simulate(plan, p)
			if err != nil {
				return nil, err
			}
			all = append(all, Choice{Config: cfg, Plan: plan, Line: line, Problem: p, prompt: prompt, cached: cached})
		}
	}
	c.known[key] = all
	return all, nil
}

func residentKey(resident []Graph) string {
	key := make([]byte, len(resident))
	for b, g := range resident {
		key[b] = byte(g)
	}
	return string(key)
}

// Done says that a plan was run to its end, and how many tokens were answered.
func (c *Chooser) Done(choice *Choice, output int) error {
	c.begun, c.idled = true, false
	c.config, c.resident = choice.Config, slices.Clone(choice.Plan.After)
	if c.free || len(c.configs) == 1 {
		c.habits.add(habit{nil, choice.prompt, float64(output), 0})
		return nil
	}
	c.exchanged(choice, float64(output))
	prefill, err := c.prefills(choice.prompt, choice.cached)
	if err != nil {
		return err
	}
	c.habits.add(habit{prefill, choice.prompt, float64(output), float64(choice.cached+choice.prompt) + float64(output)/2})
	return nil
}

// Reset forgets the turns and begins in a configuration's steady state.
func (c *Chooser) Reset(cfg Config) {
	c.habits = habits{prior: c.habits.prior}
	c.exchange, c.begun, c.idled = exchange{}, false, false
	c.adopt(cfg)
}
