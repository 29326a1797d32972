package outoforder_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	. "github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// randomLayers returns a prompt of a model with 6 stages in each layer, and random times of
// the stages. If the problem has shadows (projections of outliers in float), the CPU
// computes the shadow of the feed-forward projections while the NPU computes these
// projections.
func randomLayers(t *testing.T, rng *rand.Rand) *Problem {
	chunks := 2 + rng.IntN(7)
	steady := func(most int) []time.Duration { return us(chunks, 1+rng.IntN(most)) }
	attention, growth := rng.IntN(3000), rng.IntN(1000)
	var grows []time.Duration
	for c := range chunks {
		grows = append(grows, time.Duration(1+attention+c*growth)*time.Microsecond)
	}
	layer := []Stage{
		{Name: "norm1", Lane: graphswap.CPU, Times: steady(1000)},
		{Name: "qkv", Lane: graphswap.NPU, After: []int{0}, Times: steady(3000)},
		{Name: "attention", Lane: graphswap.CPU, After: []int{1}, Past: true, Times: grows},
		{Name: "o", Lane: graphswap.NPU, After: []int{2}, Times: steady(2000)},
		{Name: "norm2", Lane: graphswap.CPU, After: []int{3}, Times: steady(1000)},
		{Name: "ffn", Lane: graphswap.NPU, After: []int{4}, Times: steady(9000)},
	}
	if rng.IntN(2) == 0 {
		layer = append(
			layer,
			Stage{Name: "shadow", Lane: graphswap.CPU, After: []int{4}, Times: steady(1000)},
			Stage{Name: "add", Lane: graphswap.CPU, After: []int{5, 6}, Times: steady(100)},
		)
	}
	p, err := New(Repeat(layer, 6+rng.IntN(18)), DefaultWindow*rng.IntN(2))
	require.NoError(t, err)
	return p
}

// In models with random times, each policy except InOrder takes less time than InOrder,
// and FeedNPU takes less time than CRule on average.
func TestOutOfOrderIsFasterInModels(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const count = 100
	mean, worst, shorter := map[Policy]float64{}, map[Policy]float64{}, 0
	for range count {
		p := randomLayers(t, rng)
		times := map[Policy]time.Duration{}
		for _, policy := range Policies() {
			s := p.Schedule(policy)
			require.NoError(t, p.Check(s))
			require.LessOrEqual(t, s.Makespan, p.Schedule(InOrder).Makespan, "%v", policy)
			ratio := float64(s.Makespan) / float64(p.Bound())
			times[policy], mean[policy], worst[policy] = s.Makespan, mean[policy]+ratio/count, max(worst[policy], ratio)
		}
		if times[FeedNPU] <= times[CRule] {
			shorter++
		}
	}
	for _, policy := range Policies() {
		t.Logf("%v takes %.4f times the bound on average, at most %.3f times", policy, mean[policy], worst[policy])
	}
	t.Logf("feed_npu takes at most the time of c_rule in %d of %d models", shorter, count)
	require.Less(t, mean[FeedNPU], mean[CRule])
}
