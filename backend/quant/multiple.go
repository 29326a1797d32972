package quant

import "math"

// A row whose blocks have multiples is stored in integers of few bits: each is
// multiplied by a whole number of its block, and that by the row's step. Hardware
// that has no floating-point scale for a block has this.
//
// LeastMultiplied and MostMultiplied are what 4 bits hold, MostMultiple is the
// largest number of a block.
const (
	LeastMultiplied = -8
	MostMultiplied  = 7
	MostMultiple    = 16
)

// FitMultiples finds the numbers of a row's blocks, one for each so many
// neighbours, and returns the row's step: those that leave the least squared
// error, as far as the neighbours of what the largest magnitude asks for go.
func FitMultiples(multiples []uint8, row []float32, block int) (step float32) {
	widest, largest := 0, float32(0)
	for i := range multiples {
		if m := magnitude(row[i*block:][:block]); m > largest {
			widest, largest = i, m
		}
	}
	step = max(bestScale(row[widest*block:][:block], largest)/MostMultiple, LeastStep)
	for i := range multiples {
		values := row[i*block:][:block]
		middle := min(math.RoundToEven(float64(magnitude(values))/(middleInteger*float64(step))), MostMultiple)
		least := math.Inf(1)
		for m := max(middle-1, 1); m <= min(middle+2, MostMultiple); m++ {
			if miss := missed(values, m*float64(step)); miss < least {
				least, multiples[i] = miss, uint8(m)
			}
		}
	}
	return step
}

// middleInteger is what a block's largest magnitude becomes where one does not
// know its sign: -8 or 7.
const middleInteger = 7.5

// bestScale is the scale that leaves a block the least squared error, of some
// around the one that its largest magnitude asks for.
func bestScale(values []float32, largest float32) (best float32) {
	least := math.Inf(1)
	for at := 6.5; at <= 9.5; at += 0.25 {
		scale := max(float64(largest)/at, LeastStep)
		if miss := missed(values, scale); miss < least {
			least, best = miss, float32(scale)
		}
	}
	return best
}

// missed is the squared error of values in 4 bits of a scale.
func missed(values []float32, scale float64) (sum float64) {
	inverse := 1 / scale
	for _, v := range values {
		q := min(max(math.RoundToEven(float64(v)*inverse), LeastMultiplied), MostMultiplied)
		miss := float64(v) - q*scale
		sum += miss * miss
	}
	return sum
}

func magnitude(values []float32) (largest float32) {
	for _, v := range values {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	return largest
}
