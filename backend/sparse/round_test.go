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
	return uint8(min(max(math.Floor(float64(sum)/float64(Unit(len(q)))+0.5)+Zero, 0), 255))
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
					found, all, squares, variance := 0, 0, 0.0, 0.0
					drawn := make([]float32, queries*dim)
					for i := range drawn {
						drawn[i] = float32(strength/4*direction[i%dim] + rng.NormFloat64())
					}
					spread := rounded.Spread(drawn, dim, share)
					for query := range queries {
						q, want, got := drawn[query*dim:][:dim], make([]float32, n), make([]uint8, n)
						Products(want, q, Rows{F32: keys, Stride: dim})
						integer := make([]byte, dim)
						scale := RoundQuery(integer, q, spread)
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
							got[j] = score(integer, integers[j*dim:][:dim])
							if want[j] >= threshold {
								all++
							}
							if got[j] > 0 && got[j] < 255 { // the others are beyond what a score can hold
								estimate := centre + (float64(got[j])-Zero)*float64(Unit(dim))*float64(scale)*float64(rounded.Scale)
								squares += math.Pow(estimate-float64(want[j]), 2)
								variance += math.Pow(float64(want[j])-middle, 2)
							}
						}
						for _, j := range Select(nil, got, Rule{}, share) {
							if want[j] >= threshold {
								found++
							}
						}
					}
					recall, noise := float64(found)/float64(all), math.Sqrt(squares/variance)
					t.Logf("recall %.3f, noise %.3f of the spread of the scores", recall, noise)
					require.Greater(t, recall, map[float64]float64{0.02: 0.9, 0.2: 0.98, 0.6: 0.99}[share])
					require.Less(t, noise, 0.05)
				})
			}
		}
	}
}

func BenchmarkRoundQuery(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys, q := make([]float32, 2048*64), make([]float32, 64)
	for i := range keys {
		keys[i] = rng.Float32()
	}
	for i := range q {
		q[i] = rng.Float32()
	}
	integers, query := make([]byte, len(keys)), make([]byte, len(q))
	k := RoundKeys(integers, keys, 64)
	spread := k.Spread(q, len(q), 0.2)
	for b.Loop() {
		RoundQuery(query, q, spread)
	}
}
