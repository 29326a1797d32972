package grammar

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMatchersShareAGrammar runs texts of one grammar at the same time, while its states
// and masks are forgotten, and compares each mask with the mask of a grammar that no
// other text uses.
func TestMatchersShareAGrammar(t *testing.T) {
	texts := []string{"{", "}", "\"", "a", "bc", "\":", ",", "[", "]", "1", "{\"a\"", "true", " ", "é"}
	for i := range 600 {
		texts = append(texts, fmt.Sprintf("word%d", i))
	}
	v := testVocabulary(texts...)
	shared := parseSchema(t, `{"type":"object"}`)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 3))
			own, err := ParseSchema([]byte(`{"type":"object"}`))
			if err != nil {
				t.Error(err)
				return
			}
			for range 10 {
				a, b := shared.NewMatcher(v), own.NewMatcher(v)
				for range 30 {
					if rng.IntN(20) == 0 {
						shared.mu.Lock()
						shared.forget()
						shared.mu.Unlock()
					}
					x, y := a.Mask(), b.Mask()
					token := int32(rng.IntN(len(texts) + 1))
					if x.Count() != y.Count() || x.Has(token) != y.Has(token) || a.Accept(token) != b.Accept(token) {
						t.Error("a shared grammar has another mask")
						return
					}
					if !b.Final() && b.Mask().Count() == 0 {
						break
					}
				}
			}
		})
	}
	all.Wait()
}

func TestMasksTakeBoundedMemory(t *testing.T) {
	const size = 1 << 17
	v := NewVocabulary(size, func(t int32) []byte { return fmt.Appendf(nil, "%x", t) }, func(int32) bool { return false })
	g, err := ParseGBNF(`root ::= [0-9a-f]{1,2000}`)
	require.NoError(t, err)
	m := g.NewMatcher(v)
	for range 600 {
		require.Greater(t, m.Mask().Count(), fewTokens)
		require.True(t, m.Accept(1))
	}
	require.LessOrEqual(t, g.maskBytes, maxMaskBytes)
	held := 0
	for _, s := range g.masked {
		held += s.mask.bytes()
	}
	require.Equal(t, g.maskBytes, held)
	require.Greater(t, held, maxMaskBytes/2)
}
