package heads

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

// TestErrorsAreThoseOfSparseAttention compares the errors with attention to some keys, computed from its
// definition.
func TestErrorsAreThoseOfSparseAttention(t *testing.T) {
	m, _ := testfile.Open(t, recorded.File(t, "f32"))
	text := recorded.All(t)["f32"][0].GreedyIDs
	for len(text) < 150 {
		text = append(text, text...)
	}
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	o, err := Open(t.Context(), dev, m, Float, 40, 160)
	require.NoError(t, err)
	defer o.Close()
	texts, finished := [][]int32{text[:140], text[5:150]}, 0
	got, err := o.Errors(t.Context(), texts, func(done, total int) {
		require.Equal(t, 285, total)
		finished = done
	})
	require.NoError(t, err)
	require.Equal(t, 285, finished)
	require.Len(t, got, o.config.Layers)

	const layer, head = 2, 5
	errors, whole := make([]float64, len(Shares)), 0.0
	for _, tokens := range texts {
		require.NoError(t, o.Compute(t.Context(), o.NewText(tokens), 0, len(tokens), 40, func(c *Chunk) {
			Dense(c)
			if c.Layer != layer || c.Head != head {
				return
			}
			keys, values := c.Text.Keys(layer, c.KeyHead), c.Text.Values(layer, c.KeyHead)
			for r, q := range c.Queries {
				n := c.First + r + 1
				if n < fewest || n%spacing != 0 {
					continue
				}
				scores, sorted := make([]float64, n), make([]float64, n)
				for j := range scores {
					for i, x := range q {
						scores[j] += float64(x) * float64(keys.F32[j*keys.Stride+i])
					}
				}
				copy(sorted, scores)
				slices.Sort(sorted)
				for _, x := range c.Out[r] {
					whole += float64(x) * float64(x)
				}
				for s, share := range Shares {
					kept := int(math.Ceil(share*float64(n) - 1e-9))
					limit, mean, rest := sorted[n-kept], 0.0, make([]float64, len(q))
					out, sum := make([]float64, len(q)), 0.0
					for j, score := range scores {
						weight := math.Exp(score)
						sum += weight
						for i := range q {
							v := float64(values.F32[j*values.Stride+i])
							if score >= limit {
								out[i] += weight * v
							} else {
								rest[i] += v / float64(n-kept)
							}
						}
						if score < limit {
							mean += weight
						}
					}
					for i, x := range c.Out[r] {
						errors[s] += math.Pow((out[i]+mean*rest[i])/sum-float64(x), 2)
					}
				}
			}
		}, nil))
	}
	for s := range Shares {
		require.InEpsilon(t, errors[s]/whole, got[layer][head][s], 1e-3)
	}
	require.Greater(t, got[layer][head][0], got[layer][head][5])
	_, err = o.Errors(t.Context(), [][]int32{text[:127]}, nil)
	require.ErrorIs(t, err, ErrTexts)
}

// TestNoOtherSharesHaveLessError draws errors, and moves shares from one head to another: no move gains.
func TestNoOtherSharesHaveLessError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		layers, heads := 1+rng.IntN(3), 1+rng.IntN(5)
		errors := make([][][]float64, layers)
		for l := range errors {
			for range heads {
				list, e := make([]float64, len(Shares)), math.Exp(3*rng.NormFloat64())
				for i := range list {
					list[i] = e
					e *= rng.Float64() * 1.1 // now and then an error rises, because it was measured
				}
				errors[l] = append(errors[l], list)
			}
		}
		mean := []float64{0.001, 0.02, 0.2, 0.5, 1 - rng.Float64(), 1}[rng.IntN(6)]
		ratios, err := Ratios(errors, mean)
		require.NoError(t, err)
		sum, least := 0.0, min(mean, Shares[0])
		for _, list := range ratios {
			for _, r := range list {
				require.GreaterOrEqual(t, r, least)
				require.LessOrEqual(t, r, 1.0)
				sum += r
			}
		}
		require.InDelta(t, mean, sum/float64(layers*heads), 1e-9)
		for range 50 {
			a, b, c, d := rng.IntN(layers), rng.IntN(heads), rng.IntN(layers), rng.IntN(heads)
			moved := min(ratios[a][b]-least, 1-ratios[c][d]) * rng.Float64()
			if moved <= 0 || a == c && b == d || mean < Shares[0] {
				continue
			}
			before := hull(errors[a][b], ratios[a][b]) + hull(errors[c][d], ratios[c][d])
			after := hull(errors[a][b], ratios[a][b]-moved) + hull(errors[c][d], ratios[c][d]+moved)
			require.GreaterOrEqual(t, after, before*(1-1e-9)-1e-12)
		}
	}
}

// hull returns the lower convex hull of a head's errors at a share, by the least chord above it.
func hull(errors []float64, share float64) float64 {
	shares, errors := append(slices.Clone(Shares), 1), append(slices.Clone(errors), 0)
	least := math.Inf(1)
	for i := range shares {
		for j := i; j < len(shares); j++ {
			switch {
			case share < shares[i]-1e-12 || share > shares[j]+1e-12:
			case i == j:
				least = min(least, errors[i])
			default:
				part := (share - shares[i]) / (shares[j] - shares[i])
				least = min(least, errors[i]+part*(errors[j]-errors[i]))
			}
		}
	}
	return least
}

func TestRatiosRejectWhatHasNoMeaning(t *testing.T) {
	valid := make([]float64, len(Shares))
	for _, list := range [][]float64{nil, {1}, append(slices.Clone(valid), 0)} {
		_, err := Ratios([][][]float64{{list}}, 0.2)
		require.ErrorIs(t, err, ErrRatios)
	}
	for _, wrong := range []float64{-1, math.NaN(), math.Inf(1)} {
		list := slices.Clone(valid)
		list[3] = wrong
		_, err := Ratios([][][]float64{{list}}, 0.2)
		require.ErrorIs(t, err, ErrRatios)
		_, err = Ratios([][][]float64{{valid}}, wrong)
		require.ErrorIs(t, err, ErrRatios)
	}
	for _, none := range [][][][]float64{nil, {{}}} {
		_, err := Ratios(none, 0.2)
		require.ErrorIs(t, err, ErrRatios)
	}
}
