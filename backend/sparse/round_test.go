package sparse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// score returns what an NPU returns for rounded queries and keys.
func score(q, k []byte) uint8 {
	sum := 0
	for i := range q {
		sum += (int(q[i]) - Zero) * (int(k[i]) - Zero)
	}
	return uint8(min(max(math.RoundToEven(float64(sum)/float64(Unit(len(q))))+Zero, 0), 255))
}

// TestRoundedScoresSelectTheKeysOfFloatScores draws heads whose keys have a large mean and a few strong
// directions, one of which the queries share, and one element far larger than the others.
func TestRoundedScoresSelectTheKeysOfFloatScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, queries = 600, 50
	for _, dim := range []int{8, 16, 64, 80, 128} {
		for _, strength := range []float64{0, 1, 4} {
			for _, share := range []float64{0.02, 0.2, 0.6} {
				t.Run(fmt.Sprintf("%d elements, strength %g, share %g", dim, strength, share), func(t *testing.T) {
					direction, mean, keys := make([]float64, dim), make([]float64, dim), make([]float32, n*dim)
					for i := range dim {
						direction[i], mean[i] = rng.NormFloat64(), 5*rng.NormFloat64()
					}
					for at := 0; at < len(keys); at += dim {
						along := strength * rng.NormFloat64()
						for i := range dim {
							keys[at+i] = float32(mean[i] + along*direction[i] + rng.NormFloat64())
						}
						keys[at] += float32(10 * rng.NormFloat64())
					}
					integers := make([]byte, len(keys))
					rounded := RoundKeys(integers, keys, dim)
					found, all, squares, spread := 0, 0, 0.0, 0.0
					for range queries {
						q, want, got := make([]float32, dim), make([]float32, n), make([]uint8, n)
						for i := range q {
							q[i] = float32(strength/4*direction[i] + rng.NormFloat64())
						}
						Products(want, q, Rows{F32: keys, Stride: dim})
						query := make([]byte, dim)
						scale := rounded.RoundQuery(query, q, share)
						centre := 0.0
						for i, c := range rounded.Centre {
							centre += float64(c) * float64(q[i])
						}
						threshold := KthLargest(want, Rule{}.Keep(n, share))
						middle := 0.0
						for _, v := range want {
							middle += float64(v) / n
						}
						for j := range got {
							got[j] = score(query, integers[j*dim:][:dim])
							if want[j] >= threshold {
								all++
							}
							if got[j] > 0 && got[j] < 255 { // the others are beyond what a score can hold
								estimate := centre + (float64(got[j])-Zero)*float64(Unit(dim))*float64(scale)*float64(rounded.Scale)
								squares += math.Pow(estimate-float64(want[j]), 2)
								spread += math.Pow(float64(want[j])-middle, 2)
							}
						}
						for _, j := range Select(nil, got, Rule{}, share) {
							if want[j] >= threshold {
								found++
							}
						}
					}
					recall, noise := float64(found)/float64(all), math.Sqrt(squares/spread)
					t.Logf("recall %.3f, noise %.3f of the spread of the scores", recall, noise)
					require.Greater(t, recall, map[float64]float64{0.02: 0.94, 0.2: 0.98, 0.6: 0.99}[share])
					require.Less(t, noise, 0.05)
				})
			}
		}
	}
}
