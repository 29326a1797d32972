package chain

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
)

// TestEncodersAreCalibrated checks that calibration measures every range that the graphs
// of a recipe with integer activations need, however the layers are cut into blocks.
func TestEncodersAreCalibrated(t *testing.T) {
	for _, arch := range modeltest.Encoders {
		m, texts := random(t, arch)
		ranges, err := Calibrate(t.Context(), cpu.New(cpu.Options{}), m, texts, Options{Recipe: exact(t), Context: 64}, nil)
		require.NoError(t, err)
		for name, r := range ranges.Tensors {
			require.False(t, math.IsNaN(float64(r.Low+r.High)), name)
		}
		recipe, err := model.FindRecipe("w8a16")
		require.NoError(t, err)
		recipe.Ranges = ranges
		layers := m.Config().Layers
		for first := range layers {
			_, err = m.Block(model.Block{Name: "b", First: first, End: layers, Rows: 32, Recipe: recipe})
			require.NoError(t, err, "%s from layer %d", arch, first)
		}
	}
}
