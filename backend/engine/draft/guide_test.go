package draft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/grammar"
	"github.com/sdnpu/sdnpu/spec"
)

// pathOf returns the tokens from the root of a tree to a row.
func pathOf(t *spec.Tree, row int32) (path []int32) {
	for ; row != spec.None; row = t.Parents[row] {
		path = append([]int32{t.Tokens[row]}, path...)
	}
	return path
}

// TestGrammarKeepsTheDraftsThatItAllows compares the guided tree with each path of the
// proposal: the tree has exactly the allowed paths, and the forced text.
func TestGrammarKeepsTheDraftsThatItAllows(t *testing.T) {
	texts := []string{"a", "b", "c", "ab", "bc", "abc", "é", "\xc3", "\xa9"}
	v := grammar.NewVocabulary(len(texts)+1, func(t int32) []byte { return []byte(texts[t]) }, func(t int32) bool { return int(t) == len(texts) })
	kept, cut, forced := 0, 0, 0
	for _, text := range []string{`root ::= "abcé" [ab]* "c"`, `root ::= [a-b]* "é"?`, `root ::= "ab" root "c" | "b"`, `root ::= "bc" | "babc"`} {
		g, err := grammar.ParseGBNF(text)
		require.NoError(t, err)
		for seed := range uint64(400) {
			rng := rand.New(rand.NewPCG(seed, 6))
			m := g.NewMatcher(v)
			for range rng.IntN(4) {
				if c := m.Clone(); c.Accept(int32(rng.IntN(len(texts)))) {
					m = c
				}
			}
			x := &spec.Tree{}
			score := float32(1)
			for range rng.IntN(30) {
				parent := int32(rng.IntN(x.Len()+1)) - 1
				if token := int32(rng.IntN(len(texts) + 1)); x.Child(parent, token) == spec.None {
					score *= 0.7 + 0.3*rng.Float32()
					x.Add(token, parent, score)
				}
			}
			proposed := spec.Tree{Tokens: x.Tokens, Parents: x.Parents, Scores: x.Scores}
			Guide(x, m, v, 64)
			allowed := func(path []int32) bool {
				c := m.Clone()
				for _, token := range path {
					if !c.Accept(token) {
						return false
					}
				}
				return true
			}
			paths := map[string]bool{}
			for i, parent := range x.Parents {
				require.Less(t, parent, int32(i))
				path := pathOf(x, int32(i))
				require.True(t, allowed(path), "%s: %v", text, path)
				paths[keyOf(path)] = true
				require.Equal(t, int32(i), x.Child(parent, x.Tokens[i]), "a row occurs twice")
			}
			for i := range proposed.Tokens {
				path := pathOf(&proposed, int32(i))
				require.Equal(t, allowed(path), paths[keyOf(path)], "%s: %v", text, path)
				if allowed(path) {
					kept++
				} else {
					cut++
				}
			}
			if split := v.Split(m.Forced()); len(split) > 0 {
				require.True(t, paths[keyOf(split)], "%v is forced", split)
				forced++
			}
			Guide(x, m, v, 2)
			require.LessOrEqual(t, x.Len(), 2)
		}
	}
	require.Greater(t, kept, 500)
	require.Greater(t, cut, 500)
	require.Greater(t, forced, 100)
}

func keyOf(path []int32) (key string) {
	for _, token := range path {
		key += string(rune(token))
	}
	return key
}
