package sparse

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRotateMultipliesByTheHadamardMatrix compares Rotate with the sum over all elements: the sign of
// element (i, j) of the matrix is the parity of the bits that i and j share.
func TestRotateMultipliesByTheHadamardMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n, size := range map[int]int{0: 0, 1: 1, 2: 2, 3: 1, 16: 16, 64: 64, 80: 16, 96: 32, 128: 128} {
		row, other := make([]float32, n), make([]float32, n)
		for i := range row {
			row[i], other[i] = rng.Float32()-0.5, rng.Float32()-0.5
		}
		want, before, product := make([]float64, n), append([]float32(nil), row...), 0.0
		for i := range row {
			first := i / size * size
			for j := range size {
				sign := 1 - 2*float64(bits.OnesCount(uint(i%size&j))%2)
				want[i] += sign * float64(row[first+j]) / math.Sqrt(float64(size))
			}
			product += float64(row[i]) * float64(other[i])
		}
		Rotate(row)
		Rotate(other)
		for i := range row {
			require.InDelta(t, want[i], row[i], 1e-5)
			product -= float64(row[i]) * float64(other[i])
		}
		require.InDelta(t, 0, product, 1e-4)
		Rotate(row)
		for i := range row {
			require.InDelta(t, before[i], row[i], 1e-5)
		}
	}
}

func BenchmarkRotate(b *testing.B) {
	row := make([]float32, 64)
	for i := range row {
		row[i] = float32(i)
	}
	for b.Loop() {
		Rotate(row)
	}
}
