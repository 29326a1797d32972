package graphswap

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The plans by name. Each can be made with and without a spare slot where that
// makes a difference.
const (
	PlanG1       = "g1_only"         // no switch, decode passes padded
	PlanG2       = "g2_only"         // the short graphs for everything
	PlanSync     = "sync"            // all loads after the prefill
	PlanLazy     = "lazy"            // as the vendor's own switching: inside the first executes
	PlanNaive    = "naive_async"     // loads as blocks finish their last chunk
	PlanGreedy   = "greedy"          // the published rule
	PlanDeferred = "greedy_deferred" // the same, begun as late as pays
	PlanDescent  = "descent"         // our planner: the default
	PlanExact    = "exact"           // the best plan there is, for reference
	PlanBoth     = "both_resident"   // both graphs in memory, weights twice
	PlanShared   = "shared_pair"     // both graphs in memory, weights once

	// The planner and the reference, held to the papers' order of the NPU's
	// work: every chunk through all blocks before the next one.
	PlanDescentInOrder = "descent_in_order"
	PlanExactInOrder   = "exact_in_order"
)

// PlanNames lists the plans in the order of a table.
func PlanNames() []string {
	return []string{
		PlanG1, PlanG2, PlanSync, PlanLazy, PlanNaive, PlanGreedy, PlanDeferred,
		PlanDescentInOrder, PlanExactInOrder, PlanDescent, PlanExact, PlanBoth, PlanShared,
	}
}

// Switches says whether a plan exchanges graphs, and so may use a spare slot.
func Switches(name string) bool {
	return !slices.Contains([]string{PlanG1, PlanG2, PlanBoth, PlanShared}, name)
}

// CutSpare takes a plan apart as people write it: "+spare" behind its name asks for
// a spare slot, "-spare" refuses one, neither leaves that open.
func CutSpare(text string) (name string, asked, refused bool) {
	if name, asked = strings.CutSuffix(text, "+spare"); !asked {
		name, refused = strings.CutSuffix(name, "-spare")
	}
	return name, asked, refused
}

// The planner's effort in legs that it looks at: what keeps planning below a
// millisecond, and what ends the reference after some seconds.
const (
	plannerEffort = 15_000
	slotEffort    = 9_000 // each takes longer beside a spare slot
	proofEffort   = 3_000
	exactEffort   = 200_000_000
)

// Make makes the named plan. It does not look whether the plan fits into the
// session: see [Timeline.Check] and [Choose].
func (p *Problem) Make(name string, spare bool) (*Plan, error) {
	inOrder := [][]int{singly(len(p.Chunks))}
	var plan *Plan
	switch name {
	case PlanG1:
		plan = p.stay(name, G1)
	case PlanG2:
		plan = p.begun(G2).stay(name, G2)
	case PlanSync, PlanLazy:
		plan = p.sync(name)
	case PlanNaive:
		plan = p.naive()
	case PlanGreedy:
		plan, _ = p.greedy(greed{name: name, spare: spare})
	case PlanDeferred:
		plan = p.deferred(spare)
	case PlanDescent:
		plan = p.descent(name, p.layouts(), spare)
	case PlanDescentInOrder:
		plan = p.descent(name, inOrder, spare)
	case PlanExact:
		plan = p.exact(name, p.layouts(), spare)
	case PlanExactInOrder:
		plan = p.exact(name, inOrder, spare)
	case PlanBoth, PlanShared:
		plan = p.begun(Both).quicker(name)
	default:
		return nil, fmt.Errorf("graphswap: %w: no plan is called %.80q, but %s", ErrRequest, name, strings.Join(PlanNames(), ", "))
	}
	plan.Name = name
	if spare && Switches(name) && !slices.Contains(plan.Before, None) {
		plan.beside()
	}
	return plan, nil
}

// layouts are the orders that the planner tries: the papers', and those in which
// first k chunks and then the rest go through block after block. Finer ones
// are worth a thousandth at most (TestTwoWindowsAreEnough).
func (p *Problem) layouts() [][]int {
	chunks := len(p.Chunks)
	all := [][]int{{chunks}}
	for k := 1; k <= chunks/2; k++ {
		all = append(all, []int{k, chunks - k})
		if k < chunks-k {
			all = append(all, []int{chunks - k, k})
		}
	}
	if chunks > 2 {
		all = append(all, singly(chunks))
	}
	return all
}

// bound is a time below which no plan from G1 can end: the loads, or the steps
// and what the last loads add to them. The last block that runs its last chunk
// on G1 is loaded behind it, beside what blocks behind it still have to run.
func (p *Problem) bound() float64 {
	io, npu := p.lanes()
	least, extra, behind := math.Inf(1), 0.0, 0.0
	last := len(p.P) - 1
	for b := p.Blocks() - 1; b >= 0; b-- {
		least = min(least, extra+max(p.Load[1][b]-behind, 0))
		extra += max(p.D[last][b]-p.P[last][b], 0)
		for c := range p.P {
			behind += max(p.D[c][b], p.P[c][b])
		}
	}
	return max(io, npu+min(least, extra))
}

// lanes is the least that the loader and the NPU have to do.
func (p *Problem) lanes() (io, npu float64) {
	for _, l := range p.Load[1] {
		io += l
	}
	for c, row := range p.P {
		for b, v := range row {
			npu += min(v, p.D[c][b])
		}
	}
	return io, npu
}

// descent is the planner: the best plan that climbing in the given orders finds.
func (p *Problem) descent(name string, layouts [][]int, spare bool) *Plan {
	effort := plannerEffort
	if spare {
		effort = slotEffort
	}
	return p.descend(p.open(spare, &effort), layouts, &effort).plan(name)
}

// searcher looks for plans in one order of the NPU's work: by cuts, or beside a
// spare slot by loads.
type searcher interface {
	// ranked are the starts, best first, without those that end far behind what
	// is known.
	ranked(known float64) []candidate
	// climb improves a start until nothing helps.
	climb(c candidate) candidate
	// best is the best of all, for blocks that begin on G1, given one to beat and
	// as far as the effort reaches.
	best(known candidate) candidate
	plan(name string, c candidate) *Plan
	// inOrder says that chunks go through all blocks one by one.
	inOrder() bool
}

// candidate is a plan in a searcher's order, with its score: cuts or loads.
type candidate struct {
	search searcher
	at     cuts
	loads  []Load
	score  score
}

func (c candidate) plan(name string) *Plan { return c.search.plan(name, c) }

// open returns what searches an order: cuts, where loads take graphs away.
func (p *Problem) open(spare bool, effort *int) func(windows []int) searcher {
	if spare && (p.all(G1) || p.all(G2)) {
		return func(windows []int) searcher { return newSlotSearch(p, windows, effort) }
	}
	return func(windows []int) searcher { return newSearch(p, windows, effort) }
}

// enough is a time below which no plan ends, or less than none where nothing is
// known.
func (p *Problem) enough(s searcher) float64 {
	if !p.all(G1) {
		return -1
	}
	if _, slot := s.(*slotSearch); slot {
		// The last load may end while the last block runs.
		return max(p.lanes()) + closer
	}
	return p.bound() + closer
}

// How many orders, and in each how many starts, are climbed from.
const (
	climbedOrders = 3
	climbs        = 4
)

// descend looks at the starts of all orders and climbs from the most promising.
func (p *Problem) descend(open func(windows []int) searcher, layouts [][]int, effort *int) candidate {
	all := make([][]candidate, 0, len(layouts))
	best, bound := candidate{score: score{end: never}}, -1.0
	for i, windows := range layouts {
		search := open(windows)
		if i == 0 {
			bound = p.enough(search)
		}
		ranked := search.ranked(best.score.end)
		if len(ranked) == 0 {
			continue
		}
		if ranked[0].score.better(best.score) {
			best = ranked[0]
		}
		if best.score.end <= bound {
			return best
		}
		all = append(all, ranked)
	}
	slices.SortStableFunc(all, func(a, b []candidate) int { return a[0].score.compare(b[0].score) })
	for i, ranked := range all {
		if i >= climbedOrders && !ranked[0].search.inOrder() {
			continue // the papers' order is always climbed in
		}
		for _, c := range ranked[:min(climbs, len(ranked))] {
			if c = c.search.climb(c); c.score.better(best.score) {
				best = c
			}
			if best.score.end <= bound {
				return best
			}
		}
	}
	if bound < 0 {
		return best
	}
	for _, ranked := range all {
		if ranked[0].search.inOrder() {
			*effort = max(*effort, proofEffort) // the papers' order always
		}
		best = ranked[0].search.best(best)
	}
	return best
}

// promising is how far behind the best start another one may end and still be
// climbed from.
const promising = 1.1

// ranked are the starts in the search's order, best first, without those that
// end far behind what is known.
func (s *search) ranked(known float64) []candidate {
	starts := s.starts()
	if s.inOrder() {
		starts = append(starts, s.problem.greedyCuts()...)
	}
	all := make([]candidate, 0, len(starts))
	for _, at := range starts {
		got := s.eval(at, known*promising)
		known = min(known, got.end)
		if got.end < never {
			all = append(all, candidate{search: s, at: at, score: got})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.score.compare(b.score) })
	return all
}

// greedyCuts are the published rule's, in both readings.
func (p *Problem) greedyCuts() (all []cuts) {
	if !p.all(G1) {
		return nil
	}
	for _, c := range []conflict{stall, skip} {
		plan, _ := p.greedy(greed{conflict: c})
		all = append(all, cuts{make([]int, p.Blocks()), plan.First})
	}
	return all
}

// exact is the reference: the best plan in the given orders, with cuts anywhere.
func (p *Problem) exact(name string, layouts [][]int, spare bool) *Plan {
	effort := exactEffort
	if !p.all(G1) {
		return p.descent(name, layouts, spare) // the reference begins on G1
	}
	open := p.open(spare, &effort)
	best := p.descend(open, layouts, &effort)
	for _, windows := range layouts {
		s := open(windows)
		if !spare {
			s = newSearchAnywhere(p, windows, &effort)
		}
		best = s.best(best)
	}
	return best.plan(name)
}

// deferred is the greedy rule begun at each step; the latest of the best wins.
func (p *Problem) deferred(spare bool) *Plan {
	var best *Plan
	least := math.Inf(1)
	for _, c := range []conflict{stall, skip} {
		for start := range p.Blocks()*len(p.Chunks) + 1 {
			plan, end := p.greedy(greed{name: PlanDeferred, conflict: c, event: true, start: start, spare: spare})
			if end <= least+closer {
				best, least = plan, min(least, end)
			}
		}
	}
	return best
}

// beside turns a plan into one with a spare slot: its steps run on what is there.
func (p *Plan) beside() {
	p.Spare = true
	for i := range p.Steps {
		p.Steps[i].Graph = Both
	}
}
