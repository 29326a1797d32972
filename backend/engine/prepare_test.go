package engine_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
)

// compileOnly is a device for another machine's chip.
type compileOnly struct{ *device }

func (compileOnly) Load(context.Context, backend.Image) (backend.Program, error) {
	return nil, backend.ErrImage
}

func openModel(t *testing.T) *model.Model {
	t.Helper()
	f, err := gguf.Open(modelDir + "/stories260K-f32.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	return m
}

// TestPreparedImagesSpareTheCompiling: an engine whose cache is empty takes
// what was prepared elsewhere, through every growth, whether or not it could
// have held the weights of several widths once.
func TestPreparedImagesSpareTheCompiling(t *testing.T) {
	for _, tt := range []struct {
		name              string
		preparer, runner  bool // whether each keeps graphs apart
		images, compiling int
	}{
		{"alike", false, false, 1 + 3*2, 0},
		{"prepared apart, where sharing would be possible", true, false, 1 + 3*2*2, 0},
		{"prepared shared, where that is impossible", false, true, 1 + 3*2, 3 * 2 * 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := cached(t, t.TempDir())
			o.Rows, o.HeadRows, o.Blocks, o.Context, o.FirstContext = []int{8, 1}, 1, 2, 64, 16
			var err error
			o.Recipe, err = model.FindRecipe("f32")
			require.NoError(t, err)
			prepared, err := imagecache.Open(t.TempDir(), imagecache.Options{})
			require.NoError(t, err)
			there := o
			there.Cache = prepared
			maker := newDevice()
			maker.apart = tt.preparer
			list, err := engine.Prepare(t.Context(), compileOnly{maker}, openModel(t), there)
			require.NoError(t, err)
			require.Len(t, list, tt.images)
			contexts := make(map[int]int)
			for _, p := range list {
				contexts[p.Context]++
				require.True(t, prepared.Has(p.Key))
				require.Equal(t, p.Context == 0, strings.HasPrefix(p.Graphs, "head"), p.Graphs)
			}
			require.Len(t, contexts, 4, "16, 32, 64 and the head: %v", contexts)
			made := maker.compiles.Load()
			require.Equal(t, int64(tt.images), made)
			_, err = engine.Prepare(t.Context(), compileOnly{maker}, openModel(t), there)
			require.NoError(t, err)
			require.Equal(t, made, maker.compiles.Load(), "the second time everything is there")

			o.Cache, err = imagecache.Open(t.TempDir(), imagecache.Options{Prepared: []string{prepared.Dir()}})
			require.NoError(t, err)
			dev := newDevice()
			dev.apart = tt.runner
			e, _ := start(t, dev, o)
			answer(t, e, engine.Request{Prompt: begin, MaxTokens: 60})
			require.EqualValues(t, tt.compiling, dev.compiles.Load())
		})
	}
}

// TestWhatIsPreparedToShareIsMadeBesideWhatIsApart: the folder's earlier images do
// not stand for it, and are taken where sharing is impossible.
func TestWhatIsPreparedToShareIsMadeBesideWhatIsApart(t *testing.T) {
	o, _ := cached(t, t.TempDir())
	o.Rows, o.HeadRows, o.Blocks, o.Context, o.FirstContext = []int{8, 1}, 1, 2, 64, 64
	maker := newDevice()
	maker.apart = true
	list, err := engine.Prepare(t.Context(), maker, openModel(t), o)
	require.NoError(t, err)
	require.Len(t, list, 2*2+1)
	maker.apart = false
	var last engine.Progress
	o.Progress = func(p engine.Progress) { last = p }
	list, err = engine.Prepare(t.Context(), maker, openModel(t), o)
	require.NoError(t, err)
	require.Len(t, list, 2+1)
	require.Len(t, list[0].Names, 2)
	require.Equal(t, [2]int{3, 3}, [2]int{last.Done, last.Total})
	require.EqualValues(t, 2*2+1+2, maker.compiles.Load(), "the head was there")
}

func TestPreparingWantsACacheAndPassesErrorsOn(t *testing.T) {
	o := small
	_, err := engine.Prepare(t.Context(), newDevice(), openModel(t), o)
	require.ErrorIs(t, err, engine.ErrOptions)
	o, _ = cached(t, t.TempDir())
	o.Compile = func(context.Context, io.Writer, engine.Job, func(int)) error { return io.ErrUnexpectedEOF }
	_, err = engine.Prepare(t.Context(), newDevice(), openModel(t), o)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Compile = nil
	_, err = engine.Prepare(ctx, newDevice(), openModel(t), o)
	require.ErrorIs(t, err, context.Canceled)
}
