package ngram_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec/ngram"
)

// TestHashesAreThoseOfTheFileFormat compares hashes with recorded ones: files of
// spec/tokendb contain them, so the hash must not change.
func TestHashesAreThoseOfTheFileFormat(t *testing.T) {
	h := ngram.Empty.Extend(1).Extend(-1).Extend(49151)
	require.Equal(t, uint32(1214142785), h.Check())
	require.Equal(t, 923, ngram.Slot(h.Check(), 1000))
}

func TestSlotsLieWithinTheTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		h, slots := ngram.Hash(rng.Uint64()), 1+rng.IntN(1<<20)
		require.NotZero(t, h.Check())
		at := ngram.Slot(h.Check(), slots)
		require.GreaterOrEqual(t, at, 0)
		require.Less(t, at, slots)
	}
}

func ExampleHash_Extend() {
	text := []int32{4, 7, 9}
	suffixes := make(map[ngram.Hash]int)
	h := ngram.Empty
	for i := len(text) - 1; i >= 0; i-- { // the context is read from the newest token to the oldest
		h = h.Extend(text[i])
		suffixes[h] = len(text) - i
	}
	fmt.Println(suffixes[ngram.Empty.Extend(9).Extend(7)])
	// Output: 2
}
