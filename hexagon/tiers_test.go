package hexagon

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// TestWeightsOfContextTiersAreStoredOnce prepares a model for three context tiers and
// grows through them. The text is that of an engine that compiles each tier.
func TestWeightsOfContextTiersAreStoredOnce(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		skipSlow(t, path)
		f16, err := model.FindRecipe("f16")
		require.NoError(t, err)
		m, tok := testfile.Open(t, filepath.Join(models, "stories260K-f16.gguf"))
		o := engine.Options{Recipe: f16, Rows: []int{16, 1}, Blocks: 1, FirstContext: 16, Context: 64}
		o.Cache, err = imagecache.Open(t.TempDir(), imagecache.Options{})
		require.NoError(t, err)
		dev := openDevice(t, path)
		prepared, err := engine.Prepare(t.Context(), dev, m, o)
		require.NoError(t, err)

		list, err := o.Cache.List()
		require.NoError(t, err)
		require.Len(t, list, len(prepared))
		tiers := 0
		for _, i := range list {
			require.NoError(t, i.Damage)
			first := i.Label["context"] == "16"
			require.Equal(t, first, i.Base == "", "%v", i.Label)
			if !first {
				whole, err := imagecache.ReadSum(i.Path)
				require.NoError(t, err)
				require.Less(t, i.Size, whole.Bytes/2+8192, "%v", i.Label)
				tiers++
			}
		}
		widths := 2 // images of each tier
		if dev.Capabilities().SharesConstants {
			widths = 1
		}
		require.Equal(t, 2*widths, tiers)

		request := engine.Request{Prompt: []int32{1, 403, 407}, MaxTokens: 32, IgnoreEOS: true}
		answer := func(o engine.Options) []int32 {
			e, err := engine.New(t.Context(), dev, m, tok, o)
			require.NoError(t, err)
			r, err := e.Generate(t.Context(), request, func(engine.Piece) error { return nil })
			require.NoError(t, err)
			require.Len(t, r.Growths, 2)
			require.NoError(t, e.Close())
			return r.Output
		}
		cached := o
		cached.Progress = func(p engine.Progress) {
			if p.Elapsed > 0 {
				require.True(t, p.Cached, p.Graph)
			}
		}
		got := answer(cached)
		o.Cache = nil
		require.Equal(t, answer(o), got)
	})
}

// TestDiskOfContextTiers prints the size of the image cache with and without
// differences, for four context tiers of all layers of a small model and of 3 of the 30
// layers of a larger one.
func TestDiskOfContextTiers(t *testing.T) {
	if !librarytest.Full() {
		t.Skip("takes a minute: run with SDNPU_FULL=1 -v")
	}
	for name, blocks := range map[string]int{filepath.Join(models, "stories260K-f16.gguf"): 1, librarytest.SmolLM2(t): 10} {
		onEachLibrary(t, func(t *testing.T, path string) {
			m, _ := testfile.Open(t, name)
			dev := openDevice(t, path)
			f16, err := model.FindRecipe("f16")
			require.NoError(t, err)
			c := images.Config{Recipe: f16, Rows: []int{128, 1}, Blocks: blocks, FirstSlots: 512, Logger: slog.New(slog.DiscardHandler), Progress: func(images.Progress) {}}
			c.Cache, err = imagecache.Open(t.TempDir(), imagecache.Options{})
			require.NoError(t, err)
			var stored, whole, first int64
			for _, slots := range []int{512, 1024, 2048, 4096} {
				sets, err := images.WriteBlocks(m, c, slots)
				require.NoError(t, err)
				_, loaded, err := images.NewLoader(dev, m, c, slots, sets).Load(t.Context(), sets[0])
				require.NoError(t, err)
				require.NoError(t, images.CloseAll(loaded))
			}
			list, err := c.Cache.List()
			require.NoError(t, err)
			for _, i := range list {
				sum, err := imagecache.ReadSum(i.Path)
				require.NoError(t, err)
				stored, whole = stored+i.Size, whole+sum.Bytes
				if i.Base == "" {
					first += i.Size
				}
			}
			t.Logf("%s, 1 of %d blocks: first tier %.2f MB, four tiers %.2f MB, whole images %.2f MB", filepath.Base(name), blocks, float64(first)/1e6, float64(stored)/1e6, float64(whole)/1e6)
			require.Less(t, stored, 2*first)
		})
	}
}
