package graphswap

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The obvious versions: every cut, every order of loads, every order of steps,
// each simulated.

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

// allOrders calls f with every order of steps that data allows.
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
		p := randomProblem(rng, 1+rng.IntN(4), 1+rng.IntN(3))
		inOrder, best := singly(len(p.Chunks)), math.Inf(1)
		allCuts(p.Blocks(), len(p.Chunks), func(down []int) {
			plan := p.plan("", inOrder, cuts{make([]int, p.Blocks()), down})
			permutations(plan.Loads, 0, func([]Load) {
				if line, err := Simulate(plan, p); err == nil {
					best = min(best, line.SwitchEndMs)
				}
			})
		})
		require.InDelta(t, best, end(t, p, PlanExactInOrder, false), 1e-9)
	}
}

func TestExactBesideASpareSlotIsTheBestOfAllOrdersAndReleases(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for range 40 {
		p := randomProblem(rng, 1+rng.IntN(3), 1+rng.IntN(3))
		plan, err := p.Make(PlanSync, true)
		require.NoError(t, err)
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
		require.InDelta(t, best, end(t, p, PlanExactInOrder, true), 1e-9)
	}
}

func TestTwoWindowsAreEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var far behind
	for range 150 {
		p := randomProblem(rng, 2+rng.IntN(3), 2+rng.IntN(2))
		best := candidate{score: score{end: never}}
		allOrders(p.Blocks(), len(p.Chunks), func(steps []Step) {
			effort := math.MaxInt
			s := newSearchIn(p, steps, &effort)
			down := make([]int, p.Blocks())
			for b := range down {
				down[b] = len(p.Chunks)
			}
			at := cuts{make([]int, p.Blocks()), down}
			if got := s.best(candidate{search: s, at: at, score: s.eval(at, never)}); got.score.better(best.score) {
				best = got
			}
		})
		far = append(far, end(t, p, PlanDescent, false)/best.score.end-1)
	}
	far.report(t, 0.002, 0.07, 0.07)
}

func TestSearchesAgreeWithTheSimulator(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for range 400 {
		p := randomProblem(rng, 1+rng.IntN(6), 1+rng.IntN(7))
		if rng.IntN(3) == 0 {
			p.Before = make([]Graph, p.Blocks())
			for b := range p.Before {
				p.Before[b] = G2
			}
		}
		effort := math.MaxInt
		for _, windows := range p.layouts() {
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
		at.down[b] = s.allowed[rng.IntN(len(s.allowed))]
		if s.problem.before(b) == G2 {
			if at.up[b] = s.allowed[rng.IntN(len(s.allowed))]; at.up[b] >= at.down[b] {
				at.up[b], at.down[b] = s.chunks, s.chunks
			}
		}
	}
	return at
}

func (s *slotSearch) randomLoads(rng *rand.Rand) []Load {
	loads, after := s.back(), 0
	for _, b := range rng.Perm(s.blocks) {
		loads = append(loads, Load{Block: b, Graph: G2, After: after - 1})
		after = min(after+rng.IntN(4), len(s.legs))
	}
	return loads
}

// With slow-downs the search spreads them evenly over a leg; the plan is
// simulated execute by execute.
func TestSlowerComputeWhileLoadingDelaysPlans(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 100 {
		p := randomProblem(rng, 2+rng.IntN(4), 1+rng.IntN(5))
		for _, name := range []string{PlanSync, PlanNaive, PlanGreedy, PlanDescent} {
			for _, spare := range []bool{false, true} {
				p.Slow = 1
				plan, err := p.Make(name, spare)
				require.NoError(t, err)
				quick, err := Simulate(plan, p)
				require.NoError(t, err)
				p.Slow = 1.3
				slow, err := Simulate(plan, p)
				require.NoError(t, err)
				require.NoError(t, slow.Check(p))
				require.GreaterOrEqual(t, slow.NPUBusyMs, quick.NPUBusyMs-1e-9)
				require.LessOrEqual(t, slow.NPUBusyMs, 1.3*(quick.NPUBusyMs+p.Plain()))
			}
		}
	}
}

func TestNamedVectors(t *testing.T) {
	// Short loads: switching early costs more than it hides.
	early := unit(2, 8, 0, 0)
	for c := range early.P {
		early.P[c], early.D[c] = []float64{.5, .5}, []float64{.6, .6}
	}
	early.Load[1] = []float64{.125, .125}
	require.InDelta(t, 8.1, simulated(t, early, PlanExactInOrder, false).SwitchEndMs, 1e-9)
	require.InDelta(t, 8.25, simulated(t, early, PlanSync, false).SwitchEndMs, 1e-9)
	require.InDelta(t, 8.125, simulated(t, early, PlanNaive, false).SwitchEndMs, 1e-9)
	require.InDelta(t, 9.5, simulated(t, early, PlanGreedy, false).SwitchEndMs, 0.1)
	require.InDelta(t, 8.1, simulated(t, early, PlanDeferred, false).SwitchEndMs, 1e-9)

	// Long loads: a descending staircase, one block per chunk.
	stairs := unit(4, 4, 0, 1)
	for c := range stairs.P {
		stairs.P[c], stairs.D[c] = []float64{.25, .25, .25, .25}, []float64{.3, .3, .3, .3}
	}
	line := simulated(t, stairs, PlanExactInOrder, false)
	require.InDelta(t, 5.0, line.SwitchEndMs, 1e-9)
	require.LessOrEqual(t, simulated(t, stairs, PlanExact, false).SwitchEndMs, 5.0)

	// One chunk.
	one := unit(4, 1, 0, .25)
	one.P[0], one.D[0] = []float64{.25, .25, .25, .25}, []float64{.3, .3, .3, .3}
	require.InDelta(t, 1.05, simulated(t, one, PlanExactInOrder, false).SwitchEndMs, 1e-9)
	require.InDelta(t, 1.25, simulated(t, one, PlanNaive, false).SwitchEndMs, 1e-9)
	require.InDelta(t, 2.00, simulated(t, one, PlanSync, false).SwitchEndMs, 1e-9)
}

func TestOneBlockOrNoLoadsLeaveNothingToPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 50 {
		single := randomProblem(rng, 1, 1+rng.IntN(6))
		require.InDelta(t, end(t, single, PlanSync, false), end(t, single, PlanExact, false), 1e-9)
		require.Equal(t, []int{len(single.Chunks)}, simulated(t, single, PlanDescent, false).Plan.First)
		free := randomProblem(rng, 2+rng.IntN(4), 1+rng.IntN(6))
		free.Load[1] = make([]float64, free.Blocks())
		line := simulated(t, free, PlanDescent, false)
		require.InDelta(t, free.Plain(), line.SwitchEndMs, 1e-9)
		for _, first := range line.Plan.First {
			require.Equal(t, len(free.Chunks), first)
		}
	}
}

func TestCostlierPartsNeverMakeTheBestPlanShorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 150 {
		p := randomProblem(rng, 2+rng.IntN(3), 1+rng.IntN(4))
		for c := range p.P { // rows of their own
			p.P[c] = append([]float64(nil), p.P[c]...)
			p.D[c] = append([]float64(nil), p.D[c]...)
		}
		was, b, c := end(t, p, PlanExact, false), rng.IntN(p.Blocks()), rng.IntN(len(p.P))
		for _, part := range []*float64{&p.Load[1][b], &p.P[c][b], &p.D[c][b]} {
			old := *part
			*part += rng.Float64()
			require.GreaterOrEqual(t, end(t, p, PlanExact, false), was-1e-9)
			*part = old
		}
	}
}

func TestPlansAndTimelinesSurviveJSON(t *testing.T) {
	p := problem(t, "sd8gen2", "qwen2.5-1.5b", request(4, 32, 700, true))
	for _, name := range PlanNames() {
		line := simulated(t, p, name, Switches(name))
		data, err := json.Marshal(line)
		require.NoError(t, err)
		var again Timeline
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, line, &again)
		require.NoError(t, again.Check(p))
	}
}
