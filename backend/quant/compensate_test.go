package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// related returns rows of correlated inputs, some much larger than others, and
// their moments.
func related(rng *rand.Rand, rows, n int) (inputs [][]float32, moments []float32) {
	moments = make([]float32, n*n)
	sums := make([]float64, n*n)
	mix := make([]float64, n)
	for i := range mix {
		mix[i] = rng.NormFloat64()
	}
	for range rows {
		common := rng.NormFloat64()
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((common*mix[i] + 0.5*rng.NormFloat64()) * math.Exp(float64(i%5)))
		}
		inputs = append(inputs, x)
		for i, a := range x {
			for j, b := range x {
				sums[i*n+j] += float64(a) * float64(b)
			}
		}
	}
	for i, v := range sums {
		moments[i] = float32(v)
	}
	return inputs, moments
}

// noise returns the squared error that rounding a row causes in the row's products with
// inputs.
func noise(inputs [][]float32, row []float32, codes []int8, step float32) (sum float64) {
	for _, x := range inputs {
		d := 0.0
		for i, v := range x {
			d += float64(v) * (float64(row[i]) - float64(codes[i])*float64(step))
		}
		sum += d * d
	}
	return sum
}

func TestCompensatedRowsHaveCloserProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var plain, compensated float64
	for range 40 {
		n := 3 + rng.IntN(40)
		seen, moments := related(rng, 4*n, n)
		c, err := NewCompensator(moments, n)
		require.NoError(t, err)
		row, codes, scratch := make([]float32, n), make([]int8, n), make([]float32, n)
		for i := range row {
			row[i] = float32(rng.NormFloat64())
		}
		step := SymmetricScale(row, 7)
		for i, v := range row {
			codes[i] = int8(math.RoundToEven(float64(v / step)))
		}
		plain += noise(seen, row, codes, step)
		c.Round(codes, row, Grid{Low: -7, High: 7, Scales: []float32{step}}, scratch)
		compensated += noise(seen, row, codes, step)
		for _, q := range codes {
			require.True(t, q >= -7 && q <= 7)
		}
	}
	require.Less(t, compensated, plain/4, "at least 6 dB")
}

// TestSharesMinimiseTheError checks that the shares have the property that defines them: if
// the later weights compensate the error of one weight by their shares, the error of the
// products is least.
func TestSharesMinimiseTheError(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		n := 2 + rng.IntN(8)
		_, moments := related(rng, 50, n)
		c, err := NewCompensator(moments, n)
		require.NoError(t, err)
		middle := float64(moments[c.order[n/2]*(n+1)])
		at := func(i, j int) float64 {
			v := float64(moments[c.order[i]*n+c.order[j]])
			if i == j {
				v += damping * (v + middle)
			}
			return v
		}
		for j := range n - 1 {
			// The error of the products is least if H[k][j] = Σ H[k][i]·share[i] for every
			// later input k, where H is the matrix of moments, and i runs over the later
			// inputs.
			for k := j + 1; k < n; k++ {
				sum, size := -at(k, j), math.Abs(at(k, j))
				for i := j + 1; i < n; i++ {
					v := at(k, i) * -float64(c.shares[j][i-j-1])
					sum, size = sum+v, size+math.Abs(v)
				}
				require.InDelta(t, 0, sum, 1e-5*size, "%d inputs, place %d", n, j)
			}
		}
		for i := range n - 1 {
			require.GreaterOrEqual(t, at(i, i), at(i+1, i+1))
		}
	}
}

func TestZeroInputsCompensateNothing(t *testing.T) {
	c, err := NewCompensator(make([]float32, 9), 3)
	require.NoError(t, err)
	codes := make([]int8, 3)
	c.Round(codes, []float32{0.26, -0.24, 9}, Grid{Low: -7, High: 7, Scales: []float32{0.1}}, make([]float32, 3))
	require.Equal(t, []int8{3, -2, 7}, codes)
	nan := float32(math.NaN())
	for _, wrong := range [][]float32{{1, 2, 2}, {nan, 0, 0, nan}, {1, 2, 2, 1}} {
		_, err := NewCompensator(wrong, 2)
		require.Error(t, err, wrong)
	}
}

// TestErrorsAreTakenInOrder compares Round bit by bit with its definition: after each weight
// is rounded, all later weights are changed to compensate its error before the next weight is
// rounded.
func TestErrorsAreTakenInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 60 {
		n := 1 + rng.IntN(30)
		_, moments := related(rng, 4*n, n)
		c, err := NewCompensator(moments, n)
		require.NoError(t, err)
		g := Grid{Low: -127, High: 127, Scales: make([]float32, n)}
		row, left := make([]float32, n), make([]float32, n)
		for i, column := range c.order {
			row[column], g.Scales[column] = float32(rng.NormFloat64()), 0.01+rng.Float32()/20
			left[i] = row[column]
		}
		want, got := make([]int8, n), make([]int8, n)
		for i, column := range c.order {
			step := float64(g.Scales[column])
			q := min(max(math.RoundToEven(float64(left[i])/step), g.Low), g.High)
			want[column] = int8(q)
			miss := float32(float64(left[i]) - q*step)
			for j, share := range c.shares[i] {
				left[i+1+j] -= float32(miss * share)
			}
		}
		c.Round(got, row, g, make([]float32, n))
		require.Equal(t, want, got, "%d weights", n)
	}
}
