package tokenizer

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

func storiesTokenizer(t *testing.T) *Tokenizer {
	f, err := gguf.Open("../../integration_test/models/stories260K-f16.gguf")
	require.NoError(t, err)
	defer f.Close()
	tok, err := New(f)
	require.NoError(t, err)
	return tok
}

// TestWordByWordAgreesWithTheWholeText compares the tokenizer with an encoder that joins the
// symbols of the whole text at once.
func TestWordByWordAgreesWithTheWholeText(t *testing.T) {
	tok := storiesTokenizer(t)
	words := tok.encode.(*sentencePiece)
	require.True(t, words.blankFirst, "otherwise this test compares nothing")
	whole := sentencePiece{vocab: words.vocab, scores: words.scores, bytes: words.bytes, spacePrefix: words.spacePrefix}
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []string{" ", " ", "  ", "▁", "a", "the", "ing", "t", "\n", "é", "你", "\xe2", "\x96", "\x81", "<0x41>", "once"}
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		got, err := words.encode(t.Context(), nil, b.String(), true)
		require.NoError(t, err)
		want, err := whole.encode(t.Context(), nil, b.String(), true)
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", b.String())
	}
}

// endsAfter is a context that is done after n calls of its method Err.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestEncodingStopsWhenItsContextIsDone(t *testing.T) {
	tok := storiesTokenizer(t)
	for name, text := range map[string]string{
		"one word":   strings.Repeat("the", 1<<19),
		"many words": strings.Repeat("a ", 1<<19),
		"specials":   strings.Repeat("<s>a", 1<<18),
	} {
		for _, asked := range []int{0, 1, 2, 3} {
			begin := time.Now()
			_, err := tok.EncodeContext(&endsAfter{t.Context(), asked}, text, EncodeOptions{ParseSpecial: true})
			require.ErrorIs(t, err, context.Canceled, "%s, asked %d times", name, asked)
			t.Logf("%s stops after %v", name, time.Since(begin))
		}
	}
}

// A text of many words takes little more memory than its ids.
func TestEncodingWordsTakesLittleMemory(t *testing.T) {
	tok := storiesTokenizer(t)
	text := strings.Repeat("once upon a time ", 1<<16)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ids, err := tok.Encode(text, EncodeOptions{ParseSpecial: true})
	require.NoError(t, err)
	require.Greater(t, len(ids), 1<<17)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	require.Less(t, used, uint64(16*len(text)), "%d bytes of text", len(text))
}

// TestReusedMemoryChangesNoTokens encodes texts at the same time and one after another.
// Each text must get the same tokens as from a new tokenizer, which cannot reuse the memory
// of an earlier text.
func TestReusedMemoryChangesNoTokens(t *testing.T) {
	tok := storiesTokenizer(t)
	var texts []string
	var want [][]int32
	for i := range 20 {
		texts = append(texts, strings.Repeat(string(rune('a'+i)), 1+997*i%5000)+" once upon a time")
		ids, err := storiesTokenizer(t).Encode(texts[i], EncodeOptions{}) // a new tokenizer has no memory of other texts
		require.NoError(t, err)
		want = append(want, ids)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 60 {
				n := (i*7 + g) % len(texts)
				ids, err := tok.Encode(texts[n], EncodeOptions{})
				if err != nil || !slices.Equal(want[n], ids) {
					t.Errorf("text %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}
