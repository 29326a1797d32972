package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// missedBy returns the squared error of rounding a row to 4-bit integers, if the scale of
// each block is `step` times the integer scale factor of the block.
func missedBy(row []float32, block int, step float32, multiples []uint8) (sum float64) {
	for i, v := range row {
		s := float64(step) * float64(multiples[i/block])
		q := min(max(math.RoundToEven(float64(v)/s), -8), 7)
		sum += (float64(v) - q*s) * (float64(v) - q*s)
	}
	return sum
}

// TestMultiplesAreNearlyOptimal compares the error of FitMultiples with the least error of
// all multiples, over steps from 0.5 to 1.5 times the step that FitMultiples returns.
func TestMultiplesAreNearlyOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var lost, least, free float64
	for range 60 {
		block, blocks := 4+rng.IntN(29), 1+rng.IntN(6)
		row := make([]float32, block*blocks)
		for i := range row {
			row[i] = float32(rng.NormFloat64() * math.Exp(float64(i/block%3)))
		}
		multiples := make([]uint8, blocks)
		step := FitMultiples(multiples, row, block)
		for _, m := range multiples {
			require.True(t, m >= 1 && m <= MostMultiple)
		}
		lost += missedBy(row, block, step, multiples)
		best := math.Inf(1)
		for at := 0.5; at <= 1.5; at += 0.01 {
			sum := 0.0
			for b := range blocks {
				own := math.Inf(1)
				for m := 1; m <= MostMultiple; m++ {
					own = min(own, missedBy(row[b*block:][:block], block, float32(at)*step, []uint8{uint8(m)}))
				}
				sum += own
			}
			best = min(best, sum)
		}
		least += best
		for b := range blocks {
			own := row[b*block:][:block]
			free += missedBy(own, block, bestScale(own, magnitude(own)), []uint8{1})
		}
	}
	require.Less(t, lost, 1.25*least, "compared with all steps and multiples")
	require.Less(t, lost, 1.15*free, "compared with a scale per block")
}

func TestMultiplesOfZerosAreSmall(t *testing.T) {
	multiples := make([]uint8, 3)
	step := FitMultiples(multiples, make([]float32, 12), 4)
	require.Equal(t, float32(LeastScale), step)
	require.Equal(t, []uint8{1, 1, 1}, multiples)
	one := FitMultiples(multiples[:1], []float32{0, 0, -8, 0}, 4)
	require.InDelta(t, 1, float64(one)*float64(multiples[0]), 0.07)
}
