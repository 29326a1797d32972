package quant

import "math"

// A row whose blocks have multiples is stored in integers of few bits. Each is
// multiplied by an integer of its block and by the row's scale. Hardware
// without a floating-point scale per block has this form.
//
// LeastMultiplied and MostMultiplied are the limits of 4 bits. MostMultiple is
// the largest multiple of a block.
const (
	LeastMultiplied = -8
	MostMultiplied  = 7
	MostMultiple    = 16
)

// FitMultiples writes the multiples of a row's blocks of the given number of
// elements and returns the row's scale. It selects those with the least squared
// error among the neighbours of the multiples that fit the largest magnitudes.
func FitMultiples(multiples []uint8, row []float32, block int) (scale float32) {
	widest, largest := 0, float32(0)
	for i := range multiples {
		if m := magnitude(row[i*block:][:block]); m > largest {
			widest, largest = i, m
		}
	}
	scale = max(bestScale(row[widest*block:][:block], largest)/MostMultiple, LeastScale)
	for i := range multiples {
		values := row[i*block:][:block]
		middle := min(math.RoundToEven(float64(magnitude(values))/(middleInteger*float64(scale))), MostMultiple)
		least := math.Inf(1)
		for m := max(middle-1, 1); m <= min(middle+2, MostMultiple); m++ {
			if miss := squaredError(values, m*float64(scale)); miss < least {
				least, multiples[i] = miss, uint8(m)
			}
		}
	}
	return scale
}

// middleInteger represents a block's largest magnitude if its sign is unknown: -8 or 7.
const middleInteger = 7.5

// bestScale returns the scale with the least squared error for a block. It tries some scales around
// the scale that fits the largest magnitude.
func bestScale(values []float32, largest float32) (best float32) {
	least := math.Inf(1)
	for at := 6.5; at <= 9.5; at += 0.25 {
		scale := max(float64(largest)/at, LeastScale)
		if miss := squaredError(values, scale); miss < least {
			least, best = miss, float32(scale)
		}
	}
	return best
}

// squaredError returns the squared error of values in 4 bits with the given scale.
func squaredError(values []float32, scale float64) (sum float64) {
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
