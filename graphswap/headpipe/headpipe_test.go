package headpipe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

func TestPlanIsWithinHalfAPercentOfTheBestOrder(t *testing.T) {
	for _, oneCore := range []bool{false, true} {
		all := Compare(rand.New(rand.NewPCG(1, 2)), 1000, oneCore)
		for _, e := range all {
			t.Logf("one core %v, %s: mean %.4f, worst %.4f of the least makespan", oneCore, e.Name, e.Mean, e.Worst)
			require.GreaterOrEqual(t, e.Mean, 1.0-1e-9)
		}
		plan := all[len(all)-1]
		require.Equal(t, "plan", plan.Name)
		require.LessOrEqual(t, plan.Worst, 1+1e-9)
		require.LessOrEqual(t, all[len(all)-2].Mean, 1.005, "moves of single heads, for more than twelve heads")
		johnson := all[2]
		require.Equal(t, "johnson", johnson.Name)
		require.LessOrEqual(t, johnson.Mean, 1.005, "the order that package lanes takes")
		if oneCore {
			require.LessOrEqual(t, johnson.Worst, 1+1e-9)
		}
		for _, e := range all {
			require.LessOrEqual(t, plan.Mean, e.Mean)
		}
	}
}

// slowTime returns the makespan of an order lane by lane: first of all launches, then of all
// top-k selections, then of all sparse attention. launches is the order of the groups on the NPU.
func slowTime(p *Problem, order Order, launches []int) (end float64) {
	ready := make(map[int]float64)
	clock := 0.0
	for _, g := range launches {
		clock += p.Groups[g].Estimate
		ready[g] = clock
	}
	topKEnds := make([]float64, len(order))
	free := 0.0
	for i, at := range order {
		h := p.Groups[at.Group].Heads[at.Head]
		start := math.Max(free, ready[at.Group])
		free = start + h.TopK
		if p.OneCore {
			free += h.Sparse
		}
		topKEnds[i] = free
	}
	if p.OneCore {
		return free
	}
	free = 0
	for i, at := range order {
		free = math.Max(free, topKEnds[i]) + p.Groups[at.Group].Heads[at.Head].Sparse
	}
	return free
}

// permutations calls visit with every order of the numbers below n.
func permutations(n int, visit func([]int)) {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	var next func(int)
	next = func(k int) {
		if k == n {
			visit(v)
			return
		}
		for i := k; i < n; i++ {
			v[k], v[i] = v[i], v[k]
			next(k + 1)
			v[k], v[i] = v[i], v[k]
		}
	}
	next(0)
}

// TestNoOrderOfLaunchesBeatsExhaustive tries all orders of heads together with all orders of launches.
func TestNoOrderOfLaunchesBeatsExhaustive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		p := Random(rng, 1+rng.IntN(5))
		p.OneCore = i%2 == 0
		heads := p.Sequential()
		least := math.Inf(1)
		permutations(len(heads), func(v []int) {
			order := make(Order, len(v))
			for i, h := range v {
				order[i] = heads[h]
			}
			permutations(len(p.Groups), func(launches []int) {
				least = min(least, slowTime(p, order, launches))
			})
		})
		require.InDelta(t, least, p.Time(p.Exhaustive()), 1e-9)
	}
}

func TestEveryOrderHoldsEveryHeadOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		p := Random(rng, 1+rng.IntN(12))
		for _, order := range []Order{p.Published(), p.Johnson(), p.Plan()} {
			require.ElementsMatch(t, p.Sequential(), order)
		}
	}
}

// TestTimelinesEndWithTheMakespan requires that tasks of a lane do not overlap, and that the last one
// ends at the makespan.
func TestTimelinesEndWithTheMakespan(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 200 {
		p := Random(rng, 1+rng.IntN(12))
		p.OneCore = i%2 == 0
		order := p.Johnson()
		line, end, npu, cpu := p.Timeline("johnson", order), 0.0, 0.0, 0.0
		for _, task := range line.Tasks {
			end = max(end, task.EndMs)
			switch {
			case task.Lane == graphswap.NPU:
				require.GreaterOrEqual(t, task.StartMs, npu-1e-9)
				npu = task.EndMs
			case p.OneCore:
				require.GreaterOrEqual(t, task.StartMs, cpu-1e-9)
				cpu = task.EndMs
			}
		}
		require.InDelta(t, p.Time(order), end, 1e-9)
		require.InDelta(t, end, line.PrefillMs, 1e-9)
	}
}

func ExampleProblem_Plan() {
	p := &Problem{Groups: []Group{
		{Estimate: 4, Heads: []Head{{TopK: 1, Sparse: 1}, {TopK: 1, Sparse: 6}}},
		{Estimate: 2, Heads: []Head{{TopK: 1, Sparse: 3}}},
	}}
	fmt.Println(p.Time(p.Sequential()), p.Time(p.Published()), p.Time(p.Plan()))
	// Output: 15 14 14
}
