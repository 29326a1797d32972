package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestAPreviewIsWhatAStartThenMakes(t *testing.T) {
	for _, apart := range []bool{false, true} {
		o, _ := cached(t, t.TempDir())
		o.FirstContext = 16
		o.Blocks = 2
		var err error
		o.Recipe, err = model.FindRecipe("f32")
		require.NoError(t, err)
		look := func() engine.Preview {
			f, err := gguf.Open(modelDir + "/stories260K-f32.gguf")
			require.NoError(t, err)
			defer f.Close()
			m, err := model.Load(f)
			require.NoError(t, err)
			dev := newDevice()
			dev.apart = apart
			p, err := engine.Look(dev, m, o)
			require.NoError(t, err)
			require.Zero(t, dev.compiles.Load()+dev.buffers.Load(), "a look changes nothing")
			return p
		}
		before := look()
		var names []string
		o.Progress = func(p engine.Progress) {
			if p.Elapsed == 0 {
				names = append(names, p.Graph)
			}
		}
		dev := newDevice()
		dev.apart = apart
		e, _ := start(t, dev, o)
		m := e.Memory()
		require.Equal(t, []int{16, 32, 64}, before.Contexts)
		require.Equal(t, m.Cache, before.Cache)
		require.Equal(t, m.IO, before.IO)
		after := look()
		require.Len(t, after.Images, int(dev.compiles.Load()))
		for i, image := range after.Images {
			require.Equal(t, names[i], image.Graphs)
			require.Zero(t, before.Images[i].Bytes)
			require.Equal(t, before.Images[i].Weights, image.Weights)
			require.InDelta(t, image.Weights, image.Bytes, 100_000, "the structure and two headers come on top")
		}
	}
}
