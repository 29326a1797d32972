package recall

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

func TestRecallIsMeasuredAgainstDenseAttention(t *testing.T) {
	m, tok := testfile.Open(t, recorded.File(t, "f32"))
	open := func(slots int) *engine.Engine {
		e, err := engine.New(t.Context(), cpu.New(cpu.Options{}), m, tok, engine.Options{Rows: []int{8, 1}, Context: 320, Slots: slots})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	dense, recalled := open(0), open(128)
	text := recorded.All(t)["f32"][0].GreedyIDs
	for len(text) < 300 {
		text = append(text, text...)
	}
	text = text[:300]
	q, err := Compare(t.Context(), dense, open(0), text, 8, 128)
	require.NoError(t, err)
	require.Equal(t, Quality{Perplexity: q.Dense, Dense: q.Dense, Executes: 1, Same: q.Same, Positions: 171}, q)
	require.InDelta(t, 1, q.Same, 1e-9)
	require.Greater(t, q.Dense, 1.0)
	q, err = Compare(t.Context(), dense, recalled, text, 8, 128)
	require.NoError(t, err)
	require.NotEqual(t, q.Dense, q.Perplexity, "some tokens are hidden")
	require.InEpsilon(t, q.Dense, q.Perplexity, 0.5)
	require.GreaterOrEqual(t, q.Executes, 1.0)

	_, err = Compare(t.Context(), dense, recalled, text[:100], 8, 128)
	require.ErrorIs(t, err, ErrText)
	filler := strings.Repeat("Once upon a time, there was a little girl. ", 60)
	found, err := Passkey(t.Context(), recalled, tok, filler, 300, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	require.False(t, found, "a model of stories has never learned to answer")
	_, err = Passkey(t.Context(), recalled, tok, filler, 3000, rand.New(rand.NewPCG(1, 2)))
	require.ErrorIs(t, err, ErrText)
}
