package detok

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// cutAtFirstStop is the obvious version of Text: the stop string that ends first wins,
// or the longest of several.
func cutAtFirstStop(s string, stops []string) (string, bool) {
	for end := range len(s) + 1 {
		cut := -1
		for _, stop := range stops {
			if stop != "" && strings.HasSuffix(s[:end], stop) && (cut < 0 || end-len(stop) < cut) {
				cut = end - len(stop)
			}
		}
		if cut >= 0 {
			return s[:cut], true
		}
	}
	return s, false
}

// assemble adds the bytes to a Text as tokens of random lengths, zero included.
func assemble(t *testing.T, rng *rand.Rand, bytes []byte, stops []string) (whole string, stopped bool, ids []int32) {
	t.Helper()
	x, source := NewText(stops), bytes
	take := func(p Piece) {
		if p.Text == "" {
			require.Empty(t, p.Tokens, "tokens without text")
		}
		require.True(t, utf8.ValidString(p.Text), "piece %q", p.Text)
		whole += p.Text
		for _, token := range p.Tokens {
			ids = append(ids, token.ID)
		}
	}
	for id := int32(0); len(bytes) > 0 && !x.Stopped(); id++ {
		n := min(rng.IntN(5), len(bytes))
		take(x.Add(bytes[:n], TokenLogprob{ID: id}))
		bytes = bytes[n:]
	}
	take(x.Finish())
	require.Equal(t, x.Stopped(), x.StopWord() != "")
	if x.Stopped() { // the fuzzer's input begins with the text and the stop string
		require.True(t, strings.HasPrefix(toUTF8(source), whole+x.StopWord()), "%q does not begin with %q and %q", source, whole, x.StopWord())
	}
	return whole, x.Stopped(), ids
}

func TestTextDoesNotDependOnTokenBoundaries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "b", "ab", "é", "€", "😀", "\xff", "\xe2\x82", "\xf0\x9f", "\u00a0"}
	stops := []string{"", "ab", "aab", "bab", "ba€", "€", "abab", "\ufffd\ufffd", "\xff", "é😀"}
	stoppedOnce := 0
	for range 5000 {
		var source strings.Builder
		for range rng.IntN(20) {
			source.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		var chosen, valid []string
		for range rng.IntN(4) {
			stop := stops[rng.IntN(len(stops))]
			chosen, valid = append(chosen, stop), append(valid, string([]rune(stop)))
		}
		want, wantStopped := cutAtFirstStop(string([]rune(source.String())), valid)
		got, stopped, ids := assemble(t, rng, []byte(source.String()), chosen)
		require.Equal(t, want, got, "source %q, stops %q", source.String(), chosen)
		require.Equal(t, wantStopped, stopped, "source %q, stops %q", source.String(), chosen)
		for i, id := range ids {
			require.EqualValues(t, i, id, "tokens come in order, without gaps")
		}
		if stopped {
			stoppedOnce++
		}
	}
	require.Greater(t, stoppedOnce, 500)
}

func TestTextHoldsBackOnlyPossibleStops(t *testing.T) {
	x := NewText([]string{"stop", "to be"})
	for _, step := range []struct{ in, out string }{
		{"now", "now"},
		{" s", " "},
		{"t", ""},
		{"ay t", "stay "},
		{"o b", ""},
		{"ut", "to bu"},
		{"\xe2", ""},
		{"\x82", ""},
		{"\xac", "t€"},
		{"\xe2\x82x", "\ufffd\ufffdx"},
		{"s", ""},
	} {
		require.Equal(t, step.out, x.Add([]byte(step.in), TokenLogprob{}).Text, "after %q", step.in)
	}
	require.Equal(t, "s", x.Finish().Text)
}

func TestTokensComeWithThePieceInWhichTheyEnd(t *testing.T) {
	tokens := func(p Piece) (ids []int32) {
		for _, token := range p.Tokens {
			ids = append(ids, token.ID)
		}
		return ids
	}
	x := NewText([]string{"\nUser:"})
	add := func(s string, id int32) Piece { return x.Add([]byte(s), TokenLogprob{ID: id}) }
	require.Equal(t, []int32{0}, tokens(add("a", 0)))
	// the control token's bytes are held back, because the character before them is
	// incomplete
	require.Empty(t, add("", 1))
	require.Equal(t, []int32{1, 2}, tokens(add("b", 2)))
	require.Empty(t, add("\xc3", 3))
	require.Equal(t, []int32{3, 4}, tokens(add("\xa9", 4)))
	p := add("c\nUs", 5)
	require.Equal(t, "c", p.Text)
	require.Empty(t, p.Tokens, "its end may begin a stop string")
	p = add("ed\nUser", 6)
	require.Equal(t, "\nUsed", p.Text)
	require.Equal(t, []int32{5}, tokens(p))
	require.Empty(t, add(": hi", 7))
	require.True(t, x.Stopped())
	require.Empty(t, x.Finish(), "token 6 was handed out, token 7 has no text")
}

func FuzzTextAgreesWithPlainSearch(f *testing.F) {
	f.Add([]byte("to be or not to be"), "not", "to b", uint64(1))
	f.Add([]byte("\xf0\x9f\x98\x80\xff\xe2\x82"), "\ufffd", "😀x", uint64(2))
	f.Fuzz(func(t *testing.T, source []byte, a, b string, seed uint64) {
		if len(source) > 500 {
			return
		}
		valid := []string{string([]rune(a)), string([]rune(b))}
		want, _ := cutAtFirstStop(string([]rune(string(source))), valid)
		got, _, _ := assemble(t, rand.New(rand.NewPCG(seed, 1)), source, []string{a, b})
		require.Equal(t, want, got)
	})
}
