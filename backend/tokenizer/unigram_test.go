package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// withKeys copies the recorded Unigram model with changed keys.
func withKeys(t testing.TB, changes ...gguf.KeyValue) *gguf.File {
	t.Helper()
	f, err := gguf.Open(filepath.Join("testdata", "unigram.gguf"))
	require.NoError(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "unigram.gguf")
	w, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.WriteWith(w, changes))
	require.NoError(t, w.Close())
	changed, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, changed.Close()) })
	return changed
}

func unigramTokenizer(t testing.TB, prefix, merge bool) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(withKeys(t,
		gguf.KeyValue{Name: "tokenizer.ggml.add_space_prefix", Value: prefix},
		gguf.KeyValue{Name: "tokenizer.ggml.remove_extra_whitespaces", Value: merge}))
	require.NoError(t, err)
	return tok
}

// TestUnigramAgreesWithLlamaCpp compares the tokens of texts with those that llama.cpp
// computed; see testdata/unigram.py. For texts without special tokens, SentencePiece gives
// the same tokens as llama.cpp.
func TestUnigramAgreesWithLlamaCpp(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "unigram.json"))
	require.NoError(t, err)
	var recorded struct {
		Texts []string
		Cases []struct {
			Prefix, Merge, Parse bool
			IDs                  []string
		}
	}
	require.NoError(t, json.Unmarshal(raw, &recorded))
	require.Len(t, recorded.Texts, 154)
	require.Len(t, recorded.Cases, 8)
	for _, c := range recorded.Cases {
		t.Run(fmt.Sprintf("prefix=%v/merge=%v/parse=%v", c.Prefix, c.Merge, c.Parse), func(t *testing.T) {
			tok := unigramTokenizer(t, c.Prefix, c.Merge)
			require.Len(t, c.IDs, len(recorded.Texts))
			for i, text := range recorded.Texts {
				want := []int32{}
				for _, field := range strings.Fields(c.IDs[i]) {
					id, err := strconv.Atoi(field)
					require.NoError(t, err)
					want = append(want, int32(id))
				}
				got, err := tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: c.Parse, ParseSpecial: c.Parse})
				require.NoError(t, err)
				require.Equal(t, want, got, "text %d: %q", i, text)
			}
		})
	}
}

func TestUnigramAddsItsSpecialTokens(t *testing.T) {
	tok := unigramTokenizer(t, true, true)
	mask := tok.ID("<mask>")
	require.NotEqual(t, tokenizer.None, mask)
	got, err := tok.Encode("the <mask>fox", tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{0, tok.ID("▁the"), mask, tok.ID("▁fox"), 2}, got)
	empty, err := tok.Encode("", tokenizer.EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2}, empty)
	require.Equal(t, " the fox", tok.Decode(got))
	require.Equal(t, "<s> the<mask> fox</s>", tok.DecodeSpecial(got))
}

// TestLongUnigramTextsEncodeInTime encodes texts that a quadratic step would not finish
// within the test's limit.
func TestLongUnigramTextsEncodeInTime(t *testing.T) {
	tok := unigramTokenizer(t, true, true)
	for _, unit := range []string{"a", " ", "ﬃ", "你", "\xff", " x", "the", "▁"} {
		_, err := tok.Encode(strings.Repeat(unit, 1<<20/len(unit)), tokenizer.EncodeOptions{})
		require.NoError(t, err)
	}
}
