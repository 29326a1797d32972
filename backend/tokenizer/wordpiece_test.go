package tokenizer_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

func bertTokenizer(t testing.TB) *tokenizer.Tokenizer {
	return load(t, filepath.Join("testdata", "ggml-vocab-bert-bge.gguf"))
}

func TestWordPieceAddsItsSpecialTokens(t *testing.T) {
	tok := bertTokenizer(t)
	got, err := tok.Encode("Héllo, [MASK] wörld!", tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{101, 7592, 1010, 103, 2088, 999, 102}, got)
	empty, err := tok.Encode("", tokenizer.EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{101, 102}, empty)
}

// TestWordPieceTakesTheLongestToken compares random words with a search that tries all
// tokens of the vocabulary.
func TestWordPieceTakesTheLongestToken(t *testing.T) {
	tok := bertTokenizer(t)
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aeinorst0q")
	for range 300 {
		var word strings.Builder
		for range 1 + rng.IntN(12) {
			word.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		ids, err := tok.Encode(word.String(), tokenizer.EncodeOptions{})
		require.NoError(t, err)
		rest := " " + word.String()
		for _, id := range ids {
			longest := ""
			for other := range tok.VocabSize() {
				text := string(tok.Piece(int32(other)))
				if len(text) > len(longest) && strings.HasPrefix(rest, text) {
					longest = text
				}
			}
			require.Equal(t, longest, string(tok.Piece(id)), "%s", word.String())
			rest = strings.TrimPrefix(rest, longest)
		}
		require.Empty(t, rest)
	}
}
