package embed

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/model"
)

// TestTextsOfAPassShareNoRows packs random texts into random shapes. Every text lies within one
// attention window, no two texts share a row, and the oldest text is in the next pass.
func TestTextsOfAPassShareNoRows(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 21))
		c := images.Config{Rows: []int{96, 48, 16}, Window: 16}
		var q queue
		for range 1 + rng.IntN(40) {
			longest := []int{16, 96}[rng.IntN(2)]
			q.items = append(q.items, &item{tokens: make([]int32, 1+rng.IntN(longest))})
		}
		for left := len(q.items); left > 0; left = len(q.items) {
			oldest := q.items[0]
			shape, texts := q.take(c.Shapes())
			require.True(t, slices.Contains(c.Shapes(), shape))
			require.Equal(t, left, len(q.items)+len(texts), "each text is in the pass or in the queue")
			require.Same(t, oldest, texts[0].item)
			span := shape.Rows / shape.Windows
			used := make([]bool, shape.Rows)
			for _, text := range texts {
				n := len(text.tokens)
				require.Equal(t, text.row/span, (text.row+n-1)/span, "a text lies in one window")
				for row := text.row; row < text.row+n; row++ {
					require.False(t, used[row], "two texts share row %d", row)
					used[row] = true
				}
				require.False(t, slices.Contains(q.items, text.item), "a text of the pass is still in the queue")
			}
		}
	}
}

// TestShortTextsTakeAttentionWindows checks passes whose best shape is obvious.
func TestShortTextsTakeAttentionWindows(t *testing.T) {
	shapes := images.Config{Rows: []int{512, 128, 32}, Window: 128}.Shapes()
	require.Equal(t, []images.Shape{{Rows: 32, Windows: 1}, {Rows: 128, Windows: 1}, {Rows: 512, Windows: 4}, {Rows: 512, Windows: 1}}, shapes)
	for _, c := range []struct {
		texts []int
		want  images.Shape
		taken int
	}{
		{[]int{20}, images.Shape{Rows: 32, Windows: 1}, 1},
		{[]int{128}, images.Shape{Rows: 128, Windows: 1}, 1},
		{[]int{128, 128, 128, 128}, images.Shape{Rows: 512, Windows: 4}, 4},
		{[]int{60, 60, 60, 60, 60, 60, 60, 60, 60}, images.Shape{Rows: 512, Windows: 4}, 8},
		{[]int{129}, images.Shape{Rows: 512, Windows: 1}, 1},
		{[]int{384, 128}, images.Shape{Rows: 512, Windows: 1}, 2},
	} {
		var q queue
		for _, n := range c.texts {
			q.items = append(q.items, &item{tokens: make([]int32, n)})
		}
		shape, texts := q.take(shapes)
		require.Equal(t, c.want, shape, "%v", c.texts)
		require.Len(t, texts, c.taken, "%v", c.texts)
	}
}

// TestWindowsNeedSharedConstants resolves options without a window. Without constant sharing, a
// second graph of a width would need another copy of the weights.
func TestWindowsNeedSharedConstants(t *testing.T) {
	config := model.Config{Layers: 1, ContextLength: 512}
	for _, c := range []struct {
		window int
		shared bool
		want   int
	}{{0, true, 128}, {0, false, 0}, {64, false, 64}} {
		o, err := Options{Window: c.window}.resolve(config, c.shared)
		require.NoError(t, err)
		require.Equal(t, c.want, o.Window, "%+v", c)
	}
}
