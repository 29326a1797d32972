package database

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec/tokendb"
)

func TestErrorsOfADatabaseIncludeARemedy(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	_, err := ReadStats(absent)
	require.ErrorContains(t, err, absent+" does not hold a token database")
	for _, known := range []error{tokendb.ErrBusy, tokendb.ErrDamaged, tokendb.ErrFingerprint, tokendb.ErrForeign} {
		err := Explain(known, "db")
		require.ErrorIs(t, err, known)
		require.ErrorContains(t, err, Remedy(known, "db"))
	}
	other := errors.New("other")
	require.Equal(t, other, Explain(other, "db"))
}

func TestForgetNeedsASelection(t *testing.T) {
	_, err := Forget("db", Selection{})
	require.ErrorContains(t, err, "sdnpu db purge removes all")
	_, err = Forget("db", Selection{Containing: "cat"})
	require.ErrorContains(t, err, "--model")
}

func TestPiecesEndBetweenCharacters(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a", pieceBytes) + "\n\n" + strings.Repeat("b", pieceBytes),
		strings.Repeat("word ", 2*pieceBytes/5),
		"a" + strings.Repeat("字", pieceBytes),
	} {
		piece := []byte(text)[:min(len(text), 2*pieceBytes)]
		n := cut(piece)
		_, err := Text(piece[:n], 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, pieceBytes)
	}
	_, err := Text([]byte("a\x00"), 10)
	require.ErrorIs(t, err, ErrNoText)
	require.ErrorContains(t, err, "byte 11")
}

func TestZeroSizeIsNoLimit(t *testing.T) {
	require.EqualValues(t, math.MaxInt64, Limit(0))
	require.EqualValues(t, 5, Limit(5))
}
