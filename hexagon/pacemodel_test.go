package hexagon

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// TestAModelStandsForABigOne: what the engine measures of the graphs that it
// runs is what the cost model says of the big model's: the emulator finds out
// from a graph alone which part of the model it is, and from its mask how much
// it sees.
func TestAModelStandsForABigOne(t *testing.T) {
	paced(t, "profile=sd8gen3,as=qwen2.5-1.5b,pace=virtual", func(t *testing.T, library string) {
		f, err := gguf.Open(filepath.Join(models, "stories260K-f16.gguf"))
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		m, err := model.Load(f)
		require.NoError(t, err)
		profile, err := graphswap.Device("sd8gen3")
		require.NoError(t, err)
		cost, err := profile.Cost("qwen2.5-1.5b")
		require.NoError(t, err)

		got, err := engine.Measure(t.Context(), openPaced(t, library), m, engine.Options{Rows: []int{64, 8}, Blocks: 2, Context: 256}, engine.MeasureOptions{Repeats: 1})
		require.NoError(t, err)
		require.Equal(t, "sd8gen3 (fitted) as qwen2.5-1.5b", got.Paced)
		require.Zero(t, got.Beside, "calls of virtual time do not overlap")
		layers := 0
		for _, g := range got.Graphs {
			require.Zero(t, g.Overruns)
			if layers += g.Layers; g.Block < 0 {
				same(t, cost.Head(g.Rows), g.Run, g.Graph)
				same(t, cost.Load(float64(cost.Model.HeadBytes)), g.Load, g.Graph)
				continue
			}
			share := float64(g.Layers) / 5
			same(t, cost.Exec(share, g.Rows, float64(got.Context)), g.Run, g.Graph)
			same(t, cost.Exec(share, g.Rows, float64(g.Rows)/2), g.Short, g.Graph)
			same(t, cost.Load(share*float64(cost.Model.BodyBytes)), g.Load, g.Graph)
		}
		require.Equal(t, 2*5, layers)
	})
}
