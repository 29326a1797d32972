package grammar

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// requireExactMask compares each token of a mask with a Matcher that reads the token.
func requireExactMask(t *testing.T, m *Matcher, v *Vocabulary) {
	t.Helper()
	mask, count := m.Mask(), 0
	for token := range int32(v.Size()) {
		allowed := m.Clone().Accept(token)
		if allowed {
			count++
		}
		if allowed != mask.Has(token) {
			t.Fatalf("token %d, %q: the mask says %v, the automaton %v", token, v.pieces[token], mask.Has(token), allowed)
		}
	}
	require.Equal(t, count, mask.Count())
}

// oddVocabulary has tokens with parts of characters, tokens with special characters inside,
// and tokens of many plain characters.
func oddVocabulary(rng *rand.Rand) *Vocabulary {
	parts := []string{"a", "b", "id", "name", " ", "\"", "\\", "\n", "\\n", "\\u00", "é", "東", "😀", "\xc3", "\xa9", "\xe6\x9d", "\xf0\x9f\x98", "\x80", ",", ":", "{", "}", "[", "1", "-", "\x7f", "0123456789abcdef", "\xed\xa0\x80", "\xff"}
	texts := append([]string{}, parts...)
	for range 600 {
		text := ""
		for range 1 + rng.IntN(5) {
			text += parts[rng.IntN(len(parts))]
		}
		texts = append(texts, text)
	}
	return testVocabulary(texts...)
}

// TestMasksAreExact walks through the texts of the examples and compares each mask with the
// tokens that the automaton reads one by one.
func TestMasksAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	list := examples(t)
	for _, text := range []string{
		`root ::= [^"\\\x00-\x1F\x7F]{0,40} "\""`, `root ::= ([^"] | "\\" .)* "é"`, `root ::= .{3,9}`, `root ::= [a-zé]* [^a] root?`,
		`root ::= "x" ([^"\\\x7F\x00-\x1F] | "\\" ["\\nu])* "\"" root`, `root ::= ("a" | [^\n])* "\n" | [^"]{1,3} "b"`,
	} {
		g, err := ParseGBNF(text)
		require.NoError(t, err)
		for range 4 {
			walkExactly(t, rng, g, oddVocabulary(rng), 12)
		}
	}
	for _, e := range list {
		g := parseSchema(t, string(e.Schema))
		v := oddVocabulary(rng)
		walkExactly(t, rng, g, v, 25)
		for _, text := range e.Texts {
			m := g.NewMatcher(v)
			for i := range len(text) {
				if rng.IntN(4) == 0 {
					requireExactMask(t, m, v)
				}
				require.True(t, m.AcceptBytes([]byte(text[i:i+1])), "%s: %s at %d", e.Name, text, i)
			}
			require.True(t, m.Final(), "%s: %s", e.Name, text)
		}
	}
}

// walkExactly draws tokens that a grammar allows, one after the other, and checks the
// mask before each.
func walkExactly(t *testing.T, rng *rand.Rand, g *Grammar, v *Vocabulary, steps int) {
	t.Helper()
	m := g.NewMatcher(v)
	for range steps {
		requireExactMask(t, m, v)
		var allowed []int32
		for token := range int32(v.Size()) {
			if m.Allowed(token) && !v.isEnd[token] {
				allowed = append(allowed, token)
			}
		}
		if len(allowed) == 0 {
			return
		}
		require.True(t, m.Accept(allowed[rng.IntN(len(allowed))]))
	}
}

// TestLargeMasksAreExact is TestMasksAreExact with a vocabulary of 151,936 tokens, for
// some of the masks.
func TestLargeMasksAreExact(t *testing.T) {
	tok, v := qwenVocabulary(t)
	rng := rand.New(rand.NewPCG(9, 10))
	checked := 0
	for _, e := range examples(t) {
		g := parseSchema(t, string(e.Schema))
		ids, err := tok.Encode(e.Texts[0], tokenizer.EncodeOptions{})
		require.NoError(t, err)
		m := g.NewMatcher(v)
		for _, id := range ids {
			if rng.IntN(40) == 0 {
				requireExactMask(t, m, v)
				checked++
			}
			require.True(t, m.Accept(id))
		}
	}
	require.Greater(t, checked, 10)
}
