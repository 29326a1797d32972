package sparse

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkRow measures 128 rows of one head with 4096 keys, of which 20 % are kept: the selection
// and sparse attention, and dense attention with the same kernels, in turn.
func BenchmarkRow(b *testing.B) {
	const rows, n = 128, 4096
	for _, dim := range []int{64, 128} {
		for _, half := range []bool{false, true} {
			b.Run(fmt.Sprintf("dim=%d/f16=%t", dim, half), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				keys, halfKeys := randomRows(rng, n, dim, dim)
				values, halfValues := randomRows(rng, n, dim, dim)
				if half {
					keys, values = halfKeys, halfValues
				}
				scores := make([]uint8, rows*n)
				for j := range scores {
					scores[j] = uint8(128 + 30*rng.NormFloat64())
				}
				q, out, indices := randomVector(rng, rows*dim), make([]float32, dim), make([]int32, 0, n)
				var selecting, attending, dense time.Duration
				b.ReportAllocs()
				for b.Loop() {
					for r := range rows {
						start := time.Now()
						indices = Select(indices[:0], scores[r*n:][:n], DefaultRule, 0.2)
						selected := time.Now()
						Attend(out, q[r*dim:][:dim], keys, values, indices, 0.125)
						selecting += selected.Sub(start)
						attending += time.Since(selected)
					}
					start := time.Now()
					for r := range rows {
						Dense(out, q[r*dim:][:dim], keys, values, n, 0.125)
					}
					dense += time.Since(start)
				}
				each := float64(b.N * rows)
				b.ReportMetric(float64(selecting.Nanoseconds())/each, "select-ns/row")
				b.ReportMetric(float64(attending.Nanoseconds())/each, "attend-ns/row")
				b.ReportMetric(float64(dense.Nanoseconds())/each, "dense-ns/row")
				b.ReportMetric(float64(dense)/float64(selecting+attending), "x-dense")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
