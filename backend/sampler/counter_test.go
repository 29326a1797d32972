package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// few is a Counter that allows the tokens of a list.
type few []int32

func (f few) Allowed(token int32) bool { return slices.Contains(f, token) }
func (f few) Accept(int32)             {}
func (f few) Count() int               { return len(f) }

func (f few) Only() (int32, bool) {
	if len(f) != 1 {
		return 0, false
	}
	return f[0], true
}

// TestMasksThatCountChangeNoDraw requires that a sampler draws the same tokens from tops with
// a mask that is a Counter as from whole rows with an equal mask that is no Counter.
func TestMasksThatCountChangeNoDraw(t *testing.T) {
	single, complete := 0, 0
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		o := drawTopOptions(rng)
		whole, err := New(o)
		require.NoError(t, err)
		part, err := New(o)
		require.NoError(t, err)
		for range 3 { // several draws show whether both samplers take equally many random numbers
			logits := near(rng, 40)
			var mask few
			for _, id := range rng.Perm(len(logits))[:1+rng.IntN(5)] {
				mask = append(mask, int32(id))
			}
			token, ok := part.SampleTop(topOf(rng, logits, 12), mask)
			want, err := whole.Sample(logits, allow(mask.Allowed))
			if err != nil {
				require.ErrorIs(t, err, ErrNoToken)
				require.True(t, !ok || len(mask) == 1)
				break // a logit of -Inf of the only allowed token is an error for Sample, but not for SampleTop
			}
			if !ok {
				token, err = part.Sample(logits, mask)
				require.NoError(t, err)
			} else if len(mask) == 1 {
				single++
			} else if o.TopK > len(mask) && o.Temperature > 0 {
				complete++
			}
			require.Equal(t, want, token, "seed %d, %+v, %v", seed, o, mask)
			whole.Accept(token)
			part.Accept(token)
		}
	}
	require.Greater(t, single, 1000)
	require.Greater(t, complete, 100)
}
