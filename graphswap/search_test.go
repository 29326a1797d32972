package graphswap

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// randomProblem is an instance of the property tests: p uniform in 0.5–1.5, d/p
// in 1–1.6, loads log-uniform in 0.1–8 chunks altogether.
func randomProblem(rng *rand.Rand, blocks, chunks int) *Problem {
	p := &Problem{Rows1: 4, Rows2: 1}
	chunk := 0.0
	long, short, weights := make([]float64, blocks), make([]float64, blocks), make([]float64, blocks)
	for b := range blocks {
		long[b] = 0.5 + rng.Float64()
		short[b] = long[b] * (1 + 0.6*rng.Float64())
		weights[b] = 0.5 + rng.Float64()
		chunk += long[b]
	}
	for range chunks {
		p.Chunks, p.P, p.D = append(p.Chunks, 4), append(p.P, long), append(p.D, short)
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	total := chunk * 0.1 * math.Pow(80, rng.Float64())
	for i := range p.Load {
		for _, w := range weights {
			p.Load[i] = append(p.Load[i], total*w/sum)
			p.Bytes[i] = append(p.Bytes[i], int64(1000*w))
		}
	}
	return p
}

// instances is how many random instances a property is tested on: all of them
// in the full run.
func instances(few, all int) int {
	if os.Getenv("SDNPU_FULL") != "" {
		return all
	}
	return few
}

// behind collects how far results lie behind a reference.
type behind []float64

func (b behind) report(t *testing.T, mean, most999, worst float64) {
	slices.Sort(b)
	sum := 0.0
	for _, v := range b {
		sum += v
	}
	got := [3]float64{sum / float64(len(b)), b[len(b)*999/1000], b[len(b)-1]}
	t.Logf("%d instances: mean %.4f %%, 99.9th percentile %.3f %%, worst %.3f %%", len(b), 100*got[0], 100*got[1], 100*got[2])
	require.LessOrEqual(t, got[0], mean)
	require.LessOrEqual(t, got[1], most999)
	require.LessOrEqual(t, got[2], worst)
	require.GreaterOrEqual(t, b[0], -1e-9, "the reference was beaten")
}

func TestDescentIsNearTheExactPlan(t *testing.T) {
	for _, tt := range []struct {
		name          string
		planner, best string
		spare         bool
		blocks        int // at most
		few           int
		seed          uint64
	}{
		{"in order", PlanDescentInOrder, PlanExactInOrder, false, 6, 2000, 11},
		{"free order", PlanDescent, PlanExact, false, 6, 1000, 12},
		{"in order, spare slot", PlanDescentInOrder, PlanExactInOrder, true, 4, 1000, 13},
		{"free order, spare slot", PlanDescent, PlanExact, true, 4, 1000, 14},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(tt.seed, 1))
			t.Log("seed", tt.seed)
			var far behind
			for range instances(tt.few, 10000) {
				p := randomProblem(rng, 2+rng.IntN(tt.blocks-1), 1+rng.IntN(8))
				got, best := end(t, p, tt.planner, tt.spare), end(t, p, tt.best, tt.spare)
				far = append(far, got/best-1)
				for _, rule := range []string{PlanSync, PlanNaive, PlanGreedy, PlanDeferred} {
					require.LessOrEqual(t, got, end(t, p, rule, tt.spare)+1e-9, "%s is better: %+v", rule, p)
				}
			}
			far.report(t, 0.001, 0.02, 0.05)
		})
	}
}

func end(t testing.TB, p *Problem, name string, spare bool) float64 {
	plan, err := p.Make(name, spare)
	require.NoError(t, err)
	line, err := Simulate(plan, p)
	if err != nil {
		require.NoError(t, err, fmt.Sprintf("%+v", p))
	}
	return line.SwitchEndMs
}

// BenchmarkDescent plans prompts of 16 chunks.
func BenchmarkDescent(b *testing.B) {
	for _, blocks := range []int{4, 8} {
		for _, spare := range []bool{false, true} {
			for _, device := range []string{"sd8gen2", "sd8gen2+fast-load"} {
				for _, model := range []string{"qwen2.5-0.5b", "qwen2.5-1.5b", "llama3.2-3b"} {
					p := problem(b, device, model, request(blocks, 32, 4096, false))
					b.Run(fmt.Sprintf("%d blocks/spare %v/%s/%s", blocks, spare, device, model), func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							_, _ = p.Make(PlanDescent, spare)
						}
					})
				}
			}
		}
	}
}

// BenchmarkSlowestPlan plans random instances of up to 8 blocks and 16 chunks,
// from the long graphs, from the short ones and from a mixture, and reports the
// one that takes longest: its quickest run of five.
func BenchmarkSlowestPlan(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 16))
	var worst time.Duration
	for b.Loop() {
		worst = 0
		for i := range 300 {
			p := randomProblem(rng, 1+rng.IntN(8), 1+rng.IntN(16))
			for range p.Blocks() {
				g := []Graph{G1, G2, G1 + Graph(rng.IntN(2))}[i%3]
				p.Before = append(p.Before, g)
			}
			least := time.Hour
			for range 5 {
				start := time.Now()
				_, err := p.Make(PlanDescent, i%2 == 0)
				least = min(least, time.Since(start))
				require.NoError(b, err)
			}
			worst = max(worst, least)
		}
	}
	b.ReportMetric(float64(worst.Microseconds()), "slowest-µs")
}
