package engine_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestPassesThatNoGraphCanTakeAreRejected(t *testing.T) {
	e, _ := start(t, newDevice(), engine.Options{Rows: []int{4, 1}, Context: 3, Sequences: 2})
	chain := func(n int) (rows []engine.Row) {
		for i := range n {
			rows = append(rows, engine.Row{Parent: i - 1})
		}
		return rows
	}
	for name, rows := range map[string][]engine.Row{
		"no rows":                  nil,
		"too many rows":            make([]engine.Row, 5),
		"negative sequence":        {{Sequence: -1, Parent: engine.Root}},
		"no such sequence":         {{Sequence: 2, Parent: engine.Root}},
		"negative token":           {{Token: -1, Parent: engine.Root}},
		"no such token":            {{Token: 512, Parent: engine.Root}},
		"its own parent":           {{Parent: 0}},
		"a later parent":           {{Parent: engine.Root}, {Parent: 2}, {Parent: engine.Root}},
		"a parent before the root": {{Parent: -2}},
		"a parent of another one":  {{Parent: engine.Root}, {Sequence: 1, Parent: 0}},
		"beyond the context":       chain(4),
	} {
		_, err := e.Forward(t.Context(), engine.Pass{Rows: rows})
		require.ErrorIs(t, err, engine.ErrPass, name)
	}
	_, err := e.Forward(t.Context(), engine.Pass{Rows: chain(3)})
	require.NoError(t, err)
	require.NoError(t, e.Commit(0, []int{0, 1, 2}))
	_, err = e.Forward(t.Context(), engine.Pass{Rows: chain(1)})
	require.ErrorIs(t, err, engine.ErrPass, "the context is full")
}

func TestOnlyAPathOfTheLastPassIsCommitted(t *testing.T) {
	e, _ := start(t, newDevice(), engine.Options{Rows: []int{8, 1}, Context: 16, Sequences: 3})
	require.ErrorIs(t, e.Commit(0, nil), engine.ErrPass, "there was no pass")
	rows := []engine.Row{
		{Token: 1, Parent: engine.Root},
		{Token: 2, Parent: 0},
		{Token: 3, Parent: 0},
		{Token: 4, Sequence: 1, Parent: engine.Root},
		{Token: 5, Parent: 2},
	}
	_, err := e.Forward(t.Context(), engine.Pass{Rows: rows})
	require.NoError(t, err)
	rows[0].Token = 9 // the caller may change its slice, because the engine has kept a copy
	for name, path := range map[string][]int{
		"not from the root": {1}, "two branches": {0, 1, 2}, "a gap": {0, 4}, "backwards": {1, 0},
		"another sequence": {3}, "no such row": {0, 5}, "negative": {-1},
	} {
		require.ErrorIs(t, e.Commit(0, path), engine.ErrPass, name)
		require.Empty(t, e.Tokens(0), name)
	}
	require.ErrorIs(t, e.Commit(2, nil), engine.ErrPass, "a sequence without rows")
	require.NoError(t, e.Commit(0, []int{0, 2, 4}))
	require.Equal(t, []int32{1, 3, 5}, e.Tokens(0))
	require.ErrorIs(t, e.Commit(0, []int{0}), engine.ErrPass, "twice")
	require.NoError(t, e.Commit(1, []int{3}))
	require.Equal(t, []int32{4}, e.Tokens(1))

	_, err = e.Forward(t.Context(), engine.Pass{Rows: []engine.Row{{Token: 7, Parent: engine.Root}}})
	require.NoError(t, err)
	require.NoError(t, e.Truncate(0, 1))
	require.ErrorIs(t, e.Commit(0, []int{0}), engine.ErrPass, "its rows follow tokens that were dropped")
}

func TestTruncateDropsTokensAndClearsTheirSlots(t *testing.T) {
	e, _ := start(t, newDevice(), engine.Options{Rows: []int{8}, Context: 16, Sequences: 2})
	feed := func(sequence int, tokens ...int32) {
		var rows []engine.Row
		var path []int
		for i, token := range tokens {
			rows, path = append(rows, engine.Row{Token: token, Sequence: sequence, Parent: i - 1}), append(path, i)
		}
		_, err := e.Forward(t.Context(), engine.Pass{Rows: rows})
		require.NoError(t, err)
		require.NoError(t, e.Commit(sequence, path))
	}
	feed(0, 1, 2, 3, 4)
	feed(1, 5, 6)
	other, err := e.ReadCache(nil, 1)
	require.NoError(t, err)
	for _, tt := range [][2]int{{-1, 0}, {2, 0}, {0, -1}, {0, 5}} {
		require.ErrorIs(t, e.Truncate(tt[0], tt[1]), engine.ErrPass)
	}
	require.NoError(t, e.Truncate(0, 3))
	require.Equal(t, []int32{1, 2, 3}, e.Tokens(0))
	feed(0, 7)
	require.Equal(t, []int32{1, 2, 3, 7}, e.Tokens(0))
	require.NoError(t, e.Truncate(0, 0))
	after, err := e.ReadCache(nil, 1)
	require.NoError(t, err)
	require.Equal(t, other, after, "the other sequence keeps its slots")
	require.Nil(t, e.Tokens(2))
	_, err = e.ReadCache(nil, 2)
	require.ErrorIs(t, err, engine.ErrPass)
}

func TestUnusedSlotsAreZero(t *testing.T) {
	dev := newDevice()
	e, _ := start(t, dev, engine.Options{Rows: []int{8, 1}, Context: 16, Sequences: 2, Blocks: 2})
	past := make(map[string][]byte)
	dev.afterRun = func(_ string, ports map[string][]byte) {
		for layer := range 5 {
			for _, name := range []string{model.PastKey(layer), model.PastValue(layer)} {
				if port := ports[name]; port != nil {
					past[name] = port
				}
			}
		}
	}
	answer(t, e, engine.Request{Prompt: []int32{1, 5, 6, 7}, MaxTokens: 5})
	require.Len(t, past, 10)
	const slot = 8 * 4 // bytes
	for name, b := range past {
		require.Len(t, b, 4*32*slot, "heads, slots of both sequences")
		for i := range 4 * 32 {
			used := i%32 < 8 // the prompt uses four slots, and the output four
			require.Equal(t, used, !bytes.Equal(b[i*slot:(i+1)*slot], make([]byte, slot)), "%s, slot %d", name, i)
		}
	}
	require.NoError(t, e.Truncate(0, 0))
	for name, b := range past {
		require.True(t, bytes.Equal(b, make([]byte, len(b))), name)
	}
}

func TestAClosedEngineReturnsErrClosed(t *testing.T) {
	dev := newDevice()
	e, _, err := open(t, t.Context(), dev, small)
	require.NoError(t, err)
	memory := e.Memory()
	require.Positive(t, memory.Programs)
	require.EqualValues(t, 5*2*4*8*4*(64+8), memory.Cache, "layers × (k,v) × heads × width × f32 × (slots and new rows)")
	require.Positive(t, memory.IO)
	require.Equal(t, 64, e.ContextLength())
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.Zero(t, dev.programs.Load())
	require.Zero(t, dev.buffers.Load())
	_, err = e.Generate(t.Context(), engine.Request{Prompt: begin, MaxTokens: 1}, nil)
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = e.Forward(t.Context(), engine.Pass{Rows: make([]engine.Row, 1)})
	require.ErrorIs(t, err, backend.ErrClosed)
	require.ErrorIs(t, e.Commit(0, nil), backend.ErrClosed)
	require.ErrorIs(t, e.Truncate(0, 0), backend.ErrClosed)
	_, err = e.ReadCache(nil, 0)
	require.ErrorIs(t, err, backend.ErrClosed)
}

func TestClosingEndsARequestBetweenPasses(t *testing.T) {
	e, _, err := open(t, t.Context(), newDevice(), small)
	require.NoError(t, err)
	_, err = e.Generate(t.Context(), engine.Request{Prompt: begin, MaxTokens: -1}, func(engine.Piece) error { return e.Close() })
	require.ErrorIs(t, err, backend.ErrClosed)
}

func TestACancelledContextStartsNoPass(t *testing.T) {
	e, _ := start(t, newDevice(), small)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Forward(ctx, engine.Pass{Rows: []engine.Row{{Parent: engine.Root}}})
	require.ErrorIs(t, err, context.Canceled)
}
