package graphswap

import "slices"

// Fixed plans and published rules: what every comparison needs beside a plan
// that was searched for.

// stay is a plan on one graph; a block that does not have it loads it first, in
// ascending order.
func (p *Problem) stay(name string, g Graph) *Plan {
	plan := p.blank(name, singly(len(p.Chunks)))
	for b := range plan.Blocks {
		if g == G2 {
			plan.First[b] = 0
		}
		if plan.Before[b]&g == 0 {
			plan.load(b, g, -1)
		}
	}
	for i := range plan.Steps {
		plan.Steps[i].Graph = g
	}
	return plan
}

// begun is the problem with a set of graphs resident from the start, where it
// does not say what is. Both is all a plan with both in memory can begin with.
func (p *Problem) begun(g Graph) *Problem {
	if p.Before != nil && g != Both {
		return p
	}
	begun := *p
	begun.Before = slices.Repeat([]Graph{g}, p.Blocks())
	return &begun
}

// quicker runs each chunk on the graph that is faster for it, where both are
// resident: the rest of a prompt often on the short one.
func (p *Problem) quicker(name string) *Plan {
	plan := p.stay(name, G1)
	for i := range plan.Steps {
		s := &plan.Steps[i]
		if p.D[s.Chunk][s.Block] < p.P[s.Chunk][s.Block] {
			s.Graph = G2
			plan.First[s.Block] = min(plan.First[s.Block], s.Chunk)
		}
	}
	return plan
}

// sync loads after the prefill, in ascending order.
func (p *Problem) sync(name string) *Plan {
	plan := p.stay(name, G1)
	for b := range plan.Blocks {
		plan.load(b, G2, len(plan.Steps)-1)
	}
	return plan
}

// naive loads each block's short graph as soon as the block is through with
// the last chunk.
func (p *Problem) naive() *Plan {
	plan := p.stay(PlanNaive, G1)
	for b := range plan.Blocks {
		plan.load(b, G2, len(plan.Steps)-plan.Blocks+b)
	}
	return plan
}

// conflict says what the greedy rule does when the block that it would load is
// needed before the load can have ended.
type conflict uint8

const (
	stall conflict = iota // load anyway; the NPU waits
	skip                  // try the next lower block, or load nothing
)

// greed is the published rule in one of its readings.
type greed struct {
	name     string
	conflict conflict
	event    bool // a round ends when the load has ended, not after its blocks
	spare    bool
	start    int // no load before this step
}

// greedy is the rule as published: before a step, take the last block that has
// not switched, and the least number of steps whose time covers its load; load
// while these steps run, and repeat. The steps of the block itself count. The end
// is the rule's own estimate.
func (p *Problem) greedy(r greed) (*Plan, float64) {
	plan := p.stay(r.name, G1)
	plan.Spare = r.spare
	s := greedyState{problem: p, plan: plan, rule: r, loaded: make([]float64, plan.Blocks), waiting: plan.Blocks}
	for b := range s.loaded {
		s.loaded[b] = never
	}
	for i := range plan.Steps {
		s.decide(i)
		s.run(i)
	}
	end := max(s.now, s.idle)
	for b := range plan.Blocks {
		if s.loaded[b] == never {
			plan.load(b, G2, len(plan.Steps)-1)
			end += p.Load[1][b]
		}
	}
	plan.tidy()
	return plan, end
}

// never is later than any time.
const never = 1e300

// greedyState is the rule's view of the run: the estimates are the costs.
type greedyState struct {
	problem *Problem
	plan    *Plan
	rule    greed
	now     float64
	idle    float64   // the loader, and the slot, from here on
	loaded  []float64 // per block: when its load ends
	waiting int       // blocks that have not begun to switch
	round   int       // the first step that may decide again
}

func (s *greedyState) graph(b int, at float64) Graph {
	if s.loaded[b] == never || s.rule.spare && s.loaded[b] > at {
		return G1
	}
	return G2
}

// decide starts a load before step i, or does not.
func (s *greedyState) decide(i int) {
	if i < s.rule.start || s.waiting == 0 || s.now < s.idle || !s.rule.event && i < s.round {
		return
	}
	for b := s.plan.Blocks - 1; b >= 0; b-- {
		if s.loaded[b] != never {
			continue
		}
		k, conflict := s.cover(i, b)
		if s.rule.conflict == skip && conflict {
			continue
		}
		s.plan.load(b, G2, i-1)
		s.loaded[b] = s.now + s.problem.Load[1][b]
		s.idle, s.round = s.loaded[b], i+k
		s.waiting--
		return
	}
}

// cover is the least number of steps from i on whose time covers the load of b,
// and whether b is among them, which can only wait.
func (s *greedyState) cover(i, b int) (k int, conflict bool) {
	total := 0.0
	for j := i; j < len(s.plan.Steps) && total < s.problem.Load[1][b]; j++ {
		step := s.plan.Steps[j]
		conflict = conflict || step.Block == b && !s.rule.spare
		total += s.time(step, s.graph(step.Block, s.now))
		k++
	}
	return k, conflict
}

func (s *greedyState) time(step Step, g Graph) float64 {
	if g == G2 {
		return s.problem.D[step.Chunk][step.Block]
	}
	return s.problem.P[step.Chunk][step.Block]
}

// run advances the clock by a step and writes its graph into the plan.
func (s *greedyState) run(i int) {
	step := &s.plan.Steps[i]
	b := step.Block
	if s.loaded[b] != never && !s.rule.spare {
		s.now = max(s.now, s.loaded[b])
	}
	g := s.graph(b, s.now)
	step.Graph = g
	if g == G2 {
		s.plan.First[b] = min(s.plan.First[b], step.Chunk)
	}
	begin := s.now
	s.now += s.time(*step, g)
	if s.rule.spare {
		step.Graph = Both
		if g == G1 && s.loaded[b] > begin && s.loaded[b] < s.now {
			s.idle = max(s.idle, s.now) // the slot is taken while b runs on
		}
	}
}
