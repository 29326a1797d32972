package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/internal/mapped"
)

// TestAPassOverChangedFilesGivesNoToken makes the mapped bytes of a file unavailable while
// the device runs a pass. The device reports no error: the engine itself must find the loss
// before it uses the pass's results.
func TestAPassOverChangedFilesGivesNoToken(t *testing.T) {
	d := newDevice()
	e, tok := start(t, d, small)
	request := engine.Request{Prompt: []int32{tok.BOS(), 300, 301}, MaxTokens: 4}
	want, err := e.Generate(t.Context(), request, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	require.Len(t, want.Output, 4)

	var lost *mapped.File
	d.afterRun = func(string, map[string][]byte) {
		if lost == nil {
			lost = testfile.Lost(t)
		}
	}
	_, err = e.Generate(t.Context(), request, func(engine.Piece) error {
		t.Error("a token of a pass over changed bytes was sent")
		return nil
	})
	require.ErrorIs(t, err, mapped.ErrGone)

	require.NoError(t, lost.Close())
	got, err := e.Generate(t.Context(), request, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	require.Equal(t, want.Output, got.Output)
}
