package graphswap

import (
	"math"
	"slices"
)

// habits are what a session's turns were like.
type habits struct {
	prior []float64 // per configuration: the prefill of usual prompts, on average
	turns []habit   // the last ones
	count int       // of all turns
}

// habit is a turn: its tokens, and what its prompt would have taken in the steady
// state of each configuration.
type habit struct {
	prefill []float64
	prompt  int
	output  float64
	context float64 // halfway through the answer
}

func (h *habits) add(turn habit) {
	h.count++
	if h.turns = append(h.turns, turn); len(h.turns) > remembered {
		h.turns = h.turns[1:]
	}
}

// What is believed of turns that are still to come. The weights were looked for
// at random, on conversations of other seeds than those of the test.
const (
	remembered = 16 // turns that count
	fading     = 0.9
	// Weights beside the turns that were seen: of the usual prompts, of the
	// expected answer, of a usual turn's tokens.
	usualPrompts, usualAnswer, usualTokens = 3.0, 0.1, 2.0

	usualTurn = 300 // tokens of a prompt
	// A conversation has some twenty turns; after four it is known what they are
	// like. There are always two more to come.
	conversation, learned, atLeast = 20.0, 4.0, 2.0
	// From so many turns on widths are changed where that takes time, and the
	// longest prompt is taken for an exception.
	evidence, exception = 2, 3
)

// Shares of the loads' time that the turns so far must have lost to a
// configuration before it is changed to, where a turn waits for the loads and where
// they go on beside turns: what is foreseen may be wrong, what was lost is not.
const (
	lostWaiting = 0.05
	lostBeside  = 0.02
)

// usual are the turns of the prior: short and long prompts, short and long
// answers.
var usual = struct {
	prompts []int
	outputs []float64
}{[]int{24, 128, 512, 1536}, []float64{16, 64, 256}}

// prefills is what a prompt takes in the steady state of each configuration.
func (c *Chooser) prefills(prompt, cached int) ([]float64, error) {
	all := make([]float64, len(c.configs))
	for i, cfg := range c.configs {
		choice, err := c.best(cfg, steady(cfg), prompt, cached)
		if err != nil {
			return nil, err
		}
		all[i] = choice.Line.SwitchEndMs
	}
	return all, nil
}

// prior is what configurations take for usual prompts, on average.
func (c *Chooser) prior() ([]float64, error) {
	mean := make([]float64, len(c.configs))
	for _, prompt := range usual.prompts {
		all, err := c.prefills(c.bounded(prompt), c.setting.Context/2)
		if err != nil {
			return nil, err
		}
		for i, ms := range all {
			mean[i] += ms / float64(len(usual.prompts))
		}
	}
	return mean, nil
}

// bounded is a prompt that a context has room for several of.
func (c *Chooser) bounded(prompt int) int { return min(prompt, max(c.setting.Context/4, 1)) }

// expected is the answer to come, in tokens: as those before it.
func (c *Chooser) expected() float64 {
	sum, weight := c.setting.expected()*usualAnswer, usualAnswer
	for _, turn := range c.habits.turns {
		sum, weight = sum+turn.output, weight+1
	}
	return sum / weight
}

// horizon is the number of turns that a change has to pay for itself in. One that
// has gone on for longer than usual will go on for as long again.
func (c *Chooser) horizon() float64 {
	return max(math.Abs(conversation-float64(c.habits.count)), atLeast)
}

// later is the context halfway through the turns to come.
func (c *Chooser) later(context int) int {
	tokens, weight := (usualTurn+c.setting.expected())*usualTokens, usualTokens
	for _, turn := range c.habits.turns {
		tokens, weight = tokens+float64(turn.prompt)+turn.output, weight+1
	}
	return min(context+int(tokens/weight*c.horizon()/2), c.setting.Context)
}

// rates is what a turn to come takes in each configuration if it is like those
// that are given, older ones counting less.
func (c *Chooser) rates(turns []habit, context int) []float64 {
	rates, output := slices.Clone(c.habits.prior), c.expected()
	for i := range rates {
		weight := usualPrompts
		rates[i] *= weight
		for _, turn := range turns {
			rates[i] = rates[i]*fading + turn.prefill[i]
			weight = weight*fading + 1
		}
		rates[i] = rates[i]/weight + output*c.perToken(i, float64(context))
	}
	return rates
}

// account is what turns lost because the configuration in use was resident and
// not another one.
func (c *Chooser) account(turns []habit, i int) (lost float64) {
	now := slices.Index(c.configs, c.config)
	for _, turn := range turns {
		lost += turn.prefill[now] - turn.prefill[i]
		lost += turn.output * (c.perToken(now, turn.context) - c.perToken(i, turn.context))
	}
	return lost
}

// perToken is what a token of an answer takes in a configuration's short graphs.
func (c *Chooser) perToken(i int, context float64) float64 {
	return c.cost.PerToken(&c.setting, c.configs[i], G2, context)
}

// withTurn are the turns so far and one of which the answer is still to come.
func (c *Chooser) withTurn(prompt, cached int) ([]habit, error) {
	prefill, err := c.prefills(prompt, cached)
	turn := habit{prefill, prompt, c.expected(), float64(cached+prompt) + c.expected()/2}
	return append(slices.Clone(c.habits.turns), turn), err
}

// unexceptional are turns without that of the longest prompt: many conversations
// begin with a document, and go on with questions.
func unexceptional(turns []habit) []habit {
	if len(turns) < exception {
		return turns
	}
	longest := 0
	for k, turn := range turns {
		if turn.prompt > turns[longest].prompt {
			longest = k
		}
	}
	return slices.Delete(slices.Clone(turns), longest, longest+1)
}

// worth is the choice that takes the least for this turn and those to come.
func (c *Chooser) worth(prompt, cached int) (*Choice, error) {
	turns, err := c.withTurn(prompt, cached)
	if err != nil {
		return nil, err
	}
	turns = unexceptional(turns)
	rates := c.rates(turns, c.later(cached+prompt))
	var best *Choice
	least := math.Inf(1)
	for i, cfg := range c.configs {
		change := c.changed(c.config, cfg)
		if change > 0 && (c.habits.count < evidence || c.account(turns, i) < lostWaiting*change) {
			continue
		}
		choice, err := c.best(cfg, c.kept(cfg), prompt, cached)
		if err != nil {
			return nil, err
		}
		total := c.turn(choice, c.expected()) + c.horizon()*rates[i]
		if total < least-closer || total < least+closer && cfg == c.config {
			best, least = choice, total
		}
	}
	return best, nil
}

// kept is what a change to a configuration leaves resident: the graphs whose
// blocks and width stay.
func (c *Chooser) kept(to Config) []Graph {
	kept := make([]Graph, to.Blocks)
	if to.Blocks != c.config.Blocks {
		return kept
	}
	for b, g := range c.resident {
		if to.Rows1 == c.config.Rows1 {
			kept[b] |= g & G1
		}
		if to.Rows2 == c.config.Rows2 {
			kept[b] |= g & G2
		}
	}
	return kept
}

// changed is the time of the loads between the steady states of two
// configurations.
func (c *Chooser) changed(from, to Config) (ms float64) {
	p, err := c.cost.TurnProblem(&c.setting, to, nil, 1, 0)
	if err != nil {
		return math.Inf(1)
	}
	for b := range p.Blocks() {
		if from.Blocks != to.Blocks || from.Rows2 != to.Rows2 {
			ms += p.Load[1][b]
		}
		if to.Residency == BothGraphs && (from.Blocks != to.Blocks || from.Rows1 != to.Rows1) {
			ms += p.Load[0][b]
		}
	}
	return ms
}
