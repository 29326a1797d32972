package sparse

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// processorTime returns the time that this thread has run on a processor, which other processes do
// not lengthen.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// BenchmarkRow measures 128 rows of one head with 4096 keys, of which 20 % are kept: the selection
// and sparse attention, and dense attention with the same kernels, in turn.
func BenchmarkRow(b *testing.B) {
	const rows, n = 128, 4096
	for _, dim := range []int{64, 128} {
		for _, half := range []bool{false, true} {
			b.Run(fmt.Sprintf("dim=%d/f16=%t", dim, half), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
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
				q, out, indices := randomVector(rng, rows*dim), make([]float32, dim), make([][]int32, rows)
				var times [4]time.Duration
				b.ReportAllocs()
				for b.Loop() {
					times[0] = processorTime(b)
					for r := range rows {
						indices[r] = Select(indices[r][:0], scores[r*n:][:n], DefaultRule, 0.2)
					}
					selected := processorTime(b)
					for r := range rows {
						Attend(out, q[r*dim:][:dim], keys, values, indices[r], 0.125)
					}
					attended := processorTime(b)
					for r := range rows {
						Dense(out, q[r*dim:][:dim], keys, values, n, 0.125)
					}
					times[1] += selected - times[0]
					times[2] += attended - selected
					times[3] += processorTime(b) - attended
				}
				each := float64(b.N * rows)
				b.ReportMetric(float64(times[1].Nanoseconds())/each, "select-ns/row")
				b.ReportMetric(float64(times[2].Nanoseconds())/each, "attend-ns/row")
				b.ReportMetric(float64(times[3].Nanoseconds())/each, "dense-ns/row")
				b.ReportMetric(float64(times[3])/float64(times[1]+times[2]), "x-dense")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
