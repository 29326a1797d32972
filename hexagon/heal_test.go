package hexagon

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// TestImagesWithWrongManifestsAreCompiledAgain exchanges the IDs of two ports in every image of a
// cache, with correct checksums. The engine must log the name of each changed image, compile the
// image again, and compute the same bits as before the change.
func TestImagesWithWrongManifestsAreCompiledAgain(t *testing.T) {
	library, dir := librarytest.Emulator(t), t.TempDir()
	open := func(log io.Writer) (*engine.Engine, *imagecache.Store) {
		store, err := imagecache.Open(dir, imagecache.Options{})
		require.NoError(t, err)
		logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		return openEngine(t, library, engine.Options{Rows: []int{16, 4}, Blocks: 2, Cache: store, Logger: logger}), store
	}
	e, store := open(io.Discard)
	want, wantTop, wantCache := generateAll(t, e, 20)
	list, err := store.List()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, info := range list {
		entry, err := store.Get(info.Key)
		require.NoError(t, err)
		image := rewrite(t, entry.Bytes(), func(m *manifest) {
			for i := range m.Graphs {
				out := m.Graphs[i].Outputs
				out[0].ID, out[1].ID = out[1].ID, out[0].ID
			}
		})
		require.NoError(t, entry.Close())
		require.NoError(t, store.Put(info.Key, nil, func(w io.Writer) error {
			_, err := w.Write(image)
			return err
		}))
	}
	for _, wrong := range []int{len(list), 0} {
		var log bytes.Buffer
		e, store := open(&log)
		answer, top, cache := generateAll(t, e, 20)
		require.Equal(t, want.Output, answer.Output)
		require.Equal(t, wantTop, top)
		require.Equal(t, wantCache, cache)
		require.Equal(t, wrong, strings.Count(log.String(), "compiled again"), log.String())
		require.Equal(t, wrong, strings.Count(log.String(), "file="+store.Dir()))
	}
}
