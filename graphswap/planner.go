package graphswap

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Effort is counted in evaluated window steps, so that equal problems get equal plans
// on every machine. These limits keep planning below a millisecond and end the exact
// reference after some seconds.
const (
	plannerEffort = 15_000
	slotEffort    = 9_000 // a step takes longer to evaluate with a spare slot
	proofEffort   = 3_000
	exactEffort   = 200_000_000
)

// Make makes a plan of [PlanNames]. It does not check that the plan fits into the
// session: see [Timeline.Check].
func (p *Problem) Make(name string, spare bool) (*Plan, error) {
	var plan *Plan
	switch name {
	case PlanPrefillOnly:
		plan = p.fixedPlan(name, Prefill)
	case PlanDecodeOnly:
		plan = p.withResident(Decode).fixedPlan(name, Decode)
	case PlanSwitch, PlanSwitchInOrder:
		plan = p.switchPlan(name, p.orders(name == PlanSwitchInOrder), spare)
	case PlanSeparate, PlanResident:
		plan = p.withResident(Both).fastestPlan(name)
	default:
		return nil, fmt.Errorf("graphswap: %w: plan %.80q: want one of %s", ErrRequest, name, strings.Join(PlanNames(), ", "))
	}
	if spare && Switches(name) && !slices.Contains(plan.Before, None) {
		plan.UseSpareSlot()
	}
	return plan, nil
}

// orders returns the window sizes of the orders to search: only the papers' order
// if chunks must stay in order, else all that the planner tries.
func (p *Problem) orders(inOrder bool) [][]int {
	if inOrder {
		return [][]int{chunkByChunk(len(p.Chunks))}
	}
	return p.candidateOrders()
}

// candidateOrders returns the orders that the planner tries: the papers', one window
// of all chunks, and every cut into two windows. The other orders save 0.07 % on average
// (TestTwoWindowsAreEnough).
func (p *Problem) candidateOrders() [][]int {
	chunks := len(p.Chunks)
	all := [][]int{{chunks}}
	for k := 1; k <= chunks/2; k++ {
		all = append(all, []int{k, chunks - k})
		if k < chunks-k {
			all = append(all, []int{chunks - k, k})
		}
	}
	if chunks > 2 {
		all = append(all, chunkByChunk(chunks))
	}
	return all
}

// lowerBound returns a time before which no plan can end, if all blocks start with prefill graphs.
// It is the time of the loads, or the time of the steps plus the time that the last loads add. The
// last block that runs its last chunk on the prefill graph loads after that chunk, while the
// following blocks compute.
func (p *Problem) lowerBound() float64 {
	io, npu := p.leastWork()
	least, extra, following := math.Inf(1), 0.0, 0.0
	last := len(p.PrefillMs) - 1
	for b := p.Blocks() - 1; b >= 0; b-- {
		least = min(least, extra+max(p.LoadMs[1][b]-following, 0))
		extra += max(p.DecodeMs[last][b]-p.PrefillMs[last][b], 0)
		for c := range p.PrefillMs {
			following += max(p.DecodeMs[c][b], p.PrefillMs[c][b])
		}
	}
	return max(io, npu+min(least, extra))
}

// leastWork returns the least time of the loader and of the NPU.
func (p *Problem) leastWork() (io, npu float64) {
	for _, l := range p.LoadMs[1] {
		io += l
	}
	for c, row := range p.PrefillMs {
		for b, v := range row {
			npu += min(v, p.DecodeMs[c][b])
		}
	}
	return io, npu
}

// switchPlan is the planner. It returns the best plan that local search finds in the
// given orders.
func (p *Problem) switchPlan(name string, orders [][]int, spare bool) *Plan {
	effort := plannerEffort
	if spare {
		effort = slotEffort
	}
	return p.searchOrders(p.newSearcher(spare, &effort), orders, &effort).plan(name)
}

// searcher searches for plans in one order of the NPU's work: for cuts, or with a spare
// slot for loads.
type searcher interface {
	// rankedStarts returns starts for the local search, best first. It leaves out starts that end
	// much later than a known plan.
	rankedStarts(known float64) []candidate
	// improve changes a start until no single change makes it better.
	improve(c candidate) candidate
	// best searches for the best plan of all, if the blocks start with prefill
	// graphs. It returns the known one if the effort ends before it finds a better.
	best(known candidate) candidate
	plan(name string, c candidate) *Plan
	// inOrder reports whether each chunk goes through all blocks before the next.
	inOrder() bool
}

// candidate is a plan in a searcher's order: its cuts or loads, and its score.
type candidate struct {
	search searcher
	cuts   cuts
	loads  []Load
	score  score
}

func (c candidate) plan(name string) *Plan { return c.search.plan(name, c) }

// newSearcher returns a constructor of searchers: for loads if there is a spare slot,
// else for cuts.
func (p *Problem) newSearcher(spare bool, effort *int) func(windows []int) searcher {
	if spare && (p.startsWith(Prefill) || p.startsWith(Decode)) {
		return func(windows []int) searcher { return newSlotSearch(p, windows, effort) }
	}
	return func(windows []int) searcher { return newSearch(p, windows, effort) }
}

// lowerBoundFor returns a time before which no plan ends, or a negative time if no
// bound is known.
func (p *Problem) lowerBoundFor(s searcher) float64 {
	if !p.startsWith(Prefill) {
		return -1
	}
	if _, slot := s.(*slotSearch); slot {
		// With a spare slot the last load can end while the last block runs.
		return max(p.leastWork()) + Epsilon
	}
	return p.lowerBound() + Epsilon
}

// The local search improves the best improvedStarts starts in each of the first improvedOrders orders.
const (
	improvedOrders = 3
	improvedStarts = 4
)

// searchOrders evaluates the starts of all orders, improves the best of them and then
// looks for a still better plan with the effort that is left.
func (p *Problem) searchOrders(open func(windows []int) searcher, orders [][]int, effort *int) candidate {
	all := make([][]candidate, 0, len(orders))
	best, bound := candidate{score: score{end: never}}, -1.0
	for i, windows := range orders {
		search := open(windows)
		if i == 0 {
			bound = p.lowerBoundFor(search)
		}
		ranked := search.rankedStarts(best.score.end)
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
		if i >= improvedOrders && !ranked[0].search.inOrder() {
			continue // the papers' order is always improved
		}
		for _, c := range ranked[:min(improvedStarts, len(ranked))] {
			if c = c.search.improve(c); c.score.better(best.score) {
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
			*effort = max(*effort, proofEffort) // search in the papers' order in any case
		}
		best = ranked[0].search.best(best)
	}
	return best
}

// UseSpareSlot lets every step run on any resident graph, so that no step waits for a load.
func (p *Plan) UseSpareSlot() {
	p.Spare = true
	for i := range p.Steps {
		p.Steps[i].Variant = Both
	}
}
