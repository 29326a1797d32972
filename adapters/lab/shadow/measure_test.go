package shadow

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

// newTestBench returns a bench of a small model with one random text for calibration and
// measurement, so that no activation exceeds its range.
func newTestBench(t *testing.T) *Bench {
	t.Helper()
	file, err := gguf.Open("../../../integration_test/models/stories260K-f16.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	m, err := model.Load(file)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]int32, 96)
	for i := range text {
		text[i] = int32(random.IntN(m.Config().Vocab))
	}
	b, err := NewBench(t.Context(), m, text, text)
	require.NoError(t, err)
	return b
}

func TestWiderIntegersAndHotChannelsAreCloserToFloat(t *testing.T) {
	b := newTestBench(t)
	measure := func(w Way) float64 {
		q, err := b.Measure(t.Context(), w)
		require.NoError(t, err)
		require.Equal(t, 95, q.Positions)
		return q.Divergence
	}
	u16 := measure(Way{In: 16, Out: 16, Spiked: alike})
	u8 := measure(Way{In: 8, Out: 8, Spiked: alike})
	exact := measure(Way{In: 8, Spiked: alike})
	require.Less(t, u16, u8)
	require.Less(t, exact, u8)
	require.Less(t, measure(Way{In: 8, Out: 8, Spiked: alike, Hot: 0.25}), u8)
}

// TestPartsAndHotChannelsAddUp compares one product with split products, without rounding
// of activations.
func TestPartsAndHotChannelsAddUp(t *testing.T) {
	b := newTestBench(t)
	whole, err := b.Measure(t.Context(), Way{Spiked: alike})
	require.NoError(t, err)
	split, err := b.Measure(t.Context(), Way{Spiked: alike, Parts: 4})
	require.NoError(t, err)
	require.InDelta(t, whole.Ratio, split.Ratio, 1e-4)
	hot, err := b.Measure(t.Context(), Way{Spiked: alike, Parts: 2, Hot: 0.1})
	require.NoError(t, err)
	require.InDelta(t, whole.Ratio, hot.Ratio, 1e-3) // hot channels are rounded to 16 bits
}

func TestHotChannelsHaveTheLargestNumbers(t *testing.T) {
	o := &observed{}
	o.add([]float32{1, -9, 0, 2, 3, 4, 0, 5}, 4)
	require.Equal(t, []bool{false, true, false, true}, o.hot(0.5))
	_, e := o.encoding(8, 0, 4, o.hot(0.5))
	require.InDelta(t, 3.0/255, e.Scale, 1e-6) // the largest number is 3 if the two hot channels are skipped
	require.False(t, o.spiked())
}
