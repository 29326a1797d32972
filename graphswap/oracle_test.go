package graphswap

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The oracles of the planner's tests simulate every plan: all cuts, all orders of loads and
// all orders of steps.

// allCuts calls f with every choice of one cut per block.
func allCuts(blocks, chunks int, f func(down []int)) {
	down := make([]int, blocks)
	for {
		f(down)
		b := 0
		for ; b < blocks && down[b] == chunks; b++ {
			down[b] = 0
		}
		if b == blocks {
			return
		}
		down[b]++
	}
}

// permutations calls f with every order of loads.
func permutations(loads []Load, k int, f func([]Load)) {
	if k == len(loads) {
		f(loads)
		return
	}
	for i := k; i < len(loads); i++ {
		loads[k], loads[i] = loads[i], loads[k]
		permutations(loads, k+1, f)
		loads[k], loads[i] = loads[i], loads[k]
	}
}

// allOrders calls f with every order of steps that the data dependencies allow.
func allOrders(blocks, chunks int, f func([]Step)) {
	next, steps := make([]int, blocks), []Step(nil)
	var extend func()
	extend = func() {
		if len(steps) == blocks*chunks {
			f(steps)
			return
		}
		for b := range blocks {
			if next[b] < chunks && (b == 0 || next[b-1] > next[b]) {
				steps = append(steps, Step{Chunk: next[b], Block: b})
				next[b]++
				extend()
				next[b]--
				steps = steps[:len(steps)-1]
			}
		}
	}
	extend()
}

func TestExactIsTheBestOfAllCutsAndAllOrdersOfLoads(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 60 {
		p := RandomProblem(rng, 1+rng.IntN(4), 1+rng.IntN(3))
		inOrder, best := chunkByChunk(len(p.Chunks)), math.Inf(1)
		allCuts(p.Blocks(), len(p.Chunks), func(down []int) {
			plan := p.plan("", inOrder, cuts{make([]int, p.Blocks()), down})
			permutations(plan.Loads, 0, func([]Load) {
				if line, err := Simulate(plan, p); err == nil {
					best = min(best, line.SwitchEndMs)
				}
			})
		})
		require.InDelta(t, best, checked(t, p, p.Exact("", false, true)).SwitchEndMs, 1e-9)
	}
}

func TestExactWithASpareSlotIsTheBestOfAllOrdersAndReleases(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for range 40 {
		p := RandomProblem(rng, 1+rng.IntN(3), 1+rng.IntN(3))
		plan := loadsAtEnd(t, p)
		plan.UseSpareSlot()
		best := math.Inf(1)
		permutations(plan.Loads, 0, func(loads []Load) {
			after := make([]Load, len(loads))
			copy(after, loads)
			allCuts(len(loads), len(plan.Steps), func(release []int) {
				for k := range after {
					after[k].After = release[k] - 1
				}
				try := *plan
				try.Loads = after
				line, err := Simulate(&try, p)
				require.NoError(t, err)
				best = min(best, line.SwitchEndMs)
			})
		})
		require.InDelta(t, best, checked(t, p, p.Exact("", true, true)).SwitchEndMs, 1e-9)
	}
}

func TestTwoWindowsAreEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var far Distances
	for range 150 {
		p := RandomProblem(rng, 2+rng.IntN(3), 2+rng.IntN(2))
		best := candidate{score: score{end: never}}
		allOrders(p.Blocks(), len(p.Chunks), func(steps []Step) {
			effort := math.MaxInt
			s := newSearchIn(p, steps, &effort)
			down := make([]int, p.Blocks())
			for b := range down {
				down[b] = len(p.Chunks)
			}
			at := cuts{make([]int, p.Blocks()), down}
			if got := s.best(candidate{search: s, cuts: at, score: s.eval(at, never)}); got.score.better(best.score) {
				best = got
			}
		})
		far = append(far, End(t, p, PlanSwitch, false)/best.score.end-1)
	}
	far.Report(t, 0.002, 0.07, 0.07)
}

func TestSearchesAgreeWithTheSimulator(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for range 400 {
		p := RandomProblem(rng, 1+rng.IntN(6), 1+rng.IntN(7))
		if rng.IntN(3) == 0 {
			p.Before = make([]Variant, p.Blocks())
			for b := range p.Before {
				p.Before[b] = Decode
			}
		}
		effort := math.MaxInt
		for _, windows := range p.candidateOrders() {
			s := newSearch(p, windows, &effort)
			at := s.randomCuts(rng)
			line, err := Simulate(p.plan("", windows, at), p)
			require.NoError(t, err, "%v %v", windows, at)
			require.NoError(t, line.Check(p))
			got := s.eval(at, never)
			require.InDelta(t, line.SwitchEndMs, got.end, 1e-9, "%v %v %v", windows, at, p.Before)
			require.InDelta(t, line.StallMs, got.stall, 1e-9)

			slots := newSlotSearch(p, windows, &effort)
			loads := slots.randomLoads(rng)
			plan := candidate{search: slots, loads: loads}.plan("")
			line, err = Simulate(plan, p)
			require.NoError(t, err)
			require.NoError(t, line.Check(p))
			require.InDelta(t, line.SwitchEndMs, slots.eval(plan.Loads, never).end, 1e-9, "%v %v %v", windows, loads, p.Before)
		}
	}
}

func (s *search) randomCuts(rng *rand.Rand) cuts {
	at := cuts{make([]int, s.blocks), make([]int, s.blocks)}
	for b := range s.blocks {
		at.toDecode[b] = s.allowedCuts[rng.IntN(len(s.allowedCuts))]
		if s.problem.variantBefore(b) == Decode {
			if at.toPrefill[b] = s.allowedCuts[rng.IntN(len(s.allowedCuts))]; at.toPrefill[b] >= at.toDecode[b] {
				at.toPrefill[b], at.toDecode[b] = s.chunks, s.chunks
			}
		}
	}
	return at
}

func (s *slotSearch) randomLoads(rng *rand.Rand) []Load {
	loads, after := s.prefillLoads(), 0
	for _, b := range rng.Perm(s.blocks) {
		loads = append(loads, Load{Block: b, Variant: Decode, After: after - 1})
		after = min(after+rng.IntN(4), len(s.steps))
	}
	return loads
}
