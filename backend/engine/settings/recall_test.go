package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// smallModel has a sliding window in the first of two layers.
func smallModel() model.Config {
	return model.Config{Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, Hidden: 64, FFN: 64, Vocab: 100, ContextLength: 1 << 15, Window: 200, Local: []bool{true, false}}
}

func TestTiersEndAtTheSlots(t *testing.T) {
	r, err := Options{Context: 32768, Slots: 4096}.Resolve(smallModel(), backend.Capabilities{})
	require.NoError(t, err)
	require.Equal(t, []int{512, 1024, 2048, 4096}, r.Contexts())
	require.Equal(t, 4096, r.ContextFor(30000))
	require.Equal(t, 4096, r.querySlots())
	dense, err := Options{Context: 2048, Slots: 4096}.Resolve(smallModel(), backend.Capabilities{})
	require.NoError(t, err)
	require.Equal(t, 2048, dense.Slots)
	require.Zero(t, dense.querySlots())
}

func TestSlotsMustHoldWhatAPassSees(t *testing.T) {
	for _, tt := range []struct {
		name   string
		slots  int
		recipe string
		says   string
	}{
		{"too few", 464, "f16", "want at least 480"}, // the ring has the window of 200 tokens and a page more
		{"enough", 480, "f16", ""},
		{"a broken page", 1000, "f16", "want a multiple of 16"},
		{"keys of 8 bits", 1024, "f16+kv8", "without +kv8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipe, err := model.FindRecipe(tt.recipe)
			require.NoError(t, err)
			_, err = Options{Context: 4096, Slots: tt.slots, Recipe: recipe}.Resolve(smallModel(), backend.Capabilities{})
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrOptions)
			require.ErrorContains(t, err, tt.says)
		})
	}
}
