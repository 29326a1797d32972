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
	Reason  string // one sentence

	prompt, cached int
}

// Chooser decides for a session: each turn's plan and, where not all graphs fit,
// which ones are kept. It learns from the turns: see [Chooser.Done].
type Chooser struct {
	cost     *Cost
	setting  Setting
	configs  []Config // what fits, in the best residency
	config   Config
	begun    bool // the first turn was run
	free     bool // all widths are resident: each turn picks its own pair
	resident []Graph
	// spent is per turn since the last change what each configuration would
	// have taken for it.
	spent [][]float64
	known map[turnKey]*Choice
}

// turnKey is what a turn's plan depends on.
type turnKey struct {
	config         Config
	prompt, cached int
	resident       string
}

// classes are the turns that the first configuration is chosen for: all pairs of
// short and long prompts with short and long answers.
var classes = struct {
	prompts []int
	outputs []float64
}{[]int{24, 128, 512, 1536}, []float64{8, 64, 256}}

// NewChooser picks the configuration that takes the least over turns of all kinds.
func NewChooser(cost *Cost, s Setting) (*Chooser, error) {
	c := &Chooser{cost: cost, setting: s, configs: cost.Configs(&s), known: map[turnKey]*Choice{}}
	if len(c.configs) == 0 {
		return nil, fmt.Errorf("graphswap: %w: %s on %s with a context of %d", ErrMemory, cost.Name, cost.Profile.ID, s.Context)
	}
	c.free = cost.allFit(&s, c.configs[0])
	total := make([]float64, len(c.configs))
	for _, prompt := range classes.prompts {
		prompt, cached := min(prompt, max(s.Context/4, 1)), s.Context/2
		for _, output := range classes.outputs {
			for i, cfg := range c.configs {
				ms, err := c.settled(cfg, prompt, cached, output)
				if err != nil {
					return nil, err
				}
				total[i] += ms
			}
		}
	}
	c.adopt(c.configs[slices.Index(total, slices.Min(total))])
	return c, nil
}

// NewPlanChooser is a chooser for a session whose graphs are there: partition,
// widths and residency stay as they are, and each turn gets the best of their
// plans, beginning with what is resident.
func NewPlanChooser(cost *Cost, s Setting, held Config, resident []Graph) *Chooser {
	return &Chooser{
		cost: cost, setting: s, configs: []Config{held}, config: held, begun: true,
		resident: slices.Clone(resident), known: map[turnKey]*Choice{},
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

// settled is what a turn takes in a configuration's steady state.
func (c *Chooser) settled(cfg Config, prompt, cached int, output float64) (float64, error) {
	choice, err := c.best(cfg, steady(cfg), prompt, cached)
	if err != nil {
		return 0, err
	}
	return c.turn(choice, output), nil
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
	return choice.Line.SwitchEndMs + output*c.perToken(choice, context)
}

// perToken is what a token of the answer takes at a context: by the formulas, or
// where blocks were measured as a pass through them did.
func (c *Chooser) perToken(choice *Choice, context float64) (ms float64) {
	cfg, g := choice.Config, decodes(choice.Plan)
	if len(c.cost.Model.Blocks) != cfg.Blocks {
		return c.cost.PerToken(&c.setting, cfg, g, context)
	}
	rows := cfg.Rows2
	if g == G1 {
		rows = cfg.Rows1
	}
	for _, block := range choice.Problem.Verify[g-1] {
		ms += block
	}
	return ms / c.setting.Tokens(rows)
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
	if c.free {
		return c.anyPair(prompt, cached)
	}
	if !c.begun {
		return c.first(prompt, cached)
	}
	if cfg, better := c.overdue(); better {
		// Nothing of the new pair is there yet: the turn begins with its loads.
		return c.best(cfg, make([]Graph, cfg.Blocks), prompt, cached)
	}
	return c.best(c.config, c.resident, prompt, cached)
}

// first chooses for the first turn: nothing is resident yet, since what is worth
// loading first depends on the prompt.
func (c *Chooser) first(prompt, cached int) (*Choice, error) {
	best, err := c.best(c.config, c.resident, prompt, cached)
	if err != nil || c.config.Residency != OneGraph {
		return best, err
	}
	long, err := c.best(c.config, slices.Repeat([]Graph{G1}, c.config.Blocks), prompt, cached)
	if err == nil && c.turn(long, c.setting.expected()) < c.turn(best, c.setting.expected()) {
		return long, nil
	}
	return best, err
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
		if best == nil || c.turn(choice, c.setting.expected()) < c.turn(best, c.setting.expected())-closer {
			best = choice
		}
	}
	return best, nil
}

// What it takes to change a configuration whose graphs are not resident: so many
// turns of evidence, and savings, as of the median turn, that pay for its loads
// within so many turns to come.
const (
	evidence = 2
	horizon  = 4
	// remembered bounds the turns that count.
	remembered = 16
)

// overdue finds a configuration that usual turns would be shorter in, by more
// than loading it takes. The median ignores the odd long prompt, for which a
// change would have to be paid twice.
func (c *Chooser) overdue() (Config, bool) {
	best, most := c.config, 0.0
	if c.config.Residency != OneGraph || len(c.spent) < evidence {
		return best, false
	}
	now := slices.Index(c.configs, c.config)
	saved := make([]float64, len(c.spent))
	for i, cfg := range c.configs {
		for t, spent := range c.spent {
			saved[t] = spent[now] - spent[i]
		}
		slices.Sort(saved)
		if median := saved[(len(saved)-1)/2]; median > most {
			best, most = cfg, median
		}
	}
	p, err := c.cost.TurnProblem(&c.setting, best, nil, 1, 0)
	if err != nil {
		return best, false
	}
	io, _ := p.lanes()
	return best, most*horizon > io
}

// reverseGain is the share of a prefill that a way back to the long graphs must
// save: below it the short ones stay, and no byte is read.
const reverseGain = 0.02

// best makes the best plan of a turn in one configuration, or remembers it.
func (c *Chooser) best(cfg Config, resident []Graph, prompt, cached int) (*Choice, error) {
	key := turnKey{cfg, prompt, cached, residentKey(resident)}
	if choice := c.known[key]; choice != nil {
		return choice, nil
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
	var best, stay *Choice
	least := math.Inf(1)
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
			choice := &Choice{Config: cfg, Plan: plan, Line: line, Problem: p, prompt: prompt, cached: cached}
			if total := c.turn(choice, c.setting.expected()); total < least-closer {
				best, least = choice, total
			}
			if name == PlanG2 && len(plan.Loads) == 0 {
				stay = choice
			}
		}
	}
	if stay != nil && c.turn(stay, c.setting.expected()) < least+reverseGain*best.Line.SwitchEndMs {
		best = stay
	}
	best.Reason = c.reason(best, p)
	c.known[key] = best
	return best, nil
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
	if !c.free && choice.Config != c.config {
		c.spent = nil
	}
	c.begun = true
	c.config, c.resident = choice.Config, slices.Clone(choice.Plan.After)
	if c.free || len(c.configs) == 1 || choice.Config.Residency != OneGraph {
		return nil
	}
	spent := make([]float64, len(c.configs))
	for i, cfg := range c.configs {
		ms, err := c.settled(cfg, choice.prompt, choice.cached, float64(output))
		if err != nil {
			return err
		}
		spent[i] = ms
	}
	c.spent = append(c.spent, spent)
	if len(c.spent) > remembered {
		c.spent = c.spent[1:]
	}
	return nil
}

// Reset forgets the turns and begins in a configuration's steady state.
func (c *Chooser) Reset(cfg Config) {
	c.spent, c.begun = nil, false
	c.adopt(cfg)
}

// reason is one sentence.
func (c *Chooser) reason(choice *Choice, p *Problem) string {
	cfg, window := choice.Config, float64(p.WindowBytes)*1e-9
	switch cfg.Residency {
	case SharedPair:
		return fmt.Sprintf("graphs of %d and %d rows share their weights and fit into %.2f GB, so nothing is exchanged", cfg.Rows1, cfg.Rows2, window)
	case BothGraphs:
		return fmt.Sprintf("graphs of %d and %d rows fit side by side into %.2f GB, so nothing is exchanged", cfg.Rows1, cfg.Rows2, window)
	}
	one := fmt.Sprintf("only one of the two graphs fits into %.2f GB, and ", window)
	if p.WindowBytes == 0 {
		one = "one of the two graphs is kept where nothing is known of memory, and "
	}
	switch {
	case choice.Plan.Before[0] == None:
		return one + fmt.Sprintf("graphs of %d and %d rows will have saved more than their loads if turns stay as they are", cfg.Rows1, cfg.Rows2)
	case len(choice.Plan.Loads) == 0 && choice.Plan.Before[0]&G2 != 0:
		return one + fmt.Sprintf("for %d tokens the graphs of %d rows beat loading those of %d", choice.prompt, cfg.Rows2, cfg.Rows1)
	case len(choice.Plan.Loads) == 0:
		return one + fmt.Sprintf("an answer of some %.0f tokens is not worth a load", c.setting.expected())
	}
	return one + fmt.Sprintf("%d tokens are worth %d loads in %d blocks, %.0f ms of them exposed",
		choice.prompt, len(choice.Plan.Loads), cfg.Blocks, max(choice.Line.ExposedMs, 0))
}
