package draft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec"
)

// TestWouldAcceptCountsAsVerificationDoes draws texts with a drafter whose drafts are right
// at random. WouldAccept must count as many passes as a simulated verification of whole draft
// trees.
func TestWouldAcceptCountsAsVerificationDoes(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		text := make([]int32, 200)
		for i := range text {
			text[i] = rng.Int32N(3)
		}
		at := 0
		// the draft tree has a path that equals the text for some tokens, and a wrong
		// branch
		tree := func(t *spec.Tree, from int) {
			draft := rand.New(rand.NewPCG(seed, uint64(from)))
			parent := spec.None
			for i := from; i < len(text) && draft.IntN(4) > 0; i++ {
				t.Add(text[i]+3, parent, 0.1)
				parent = t.Add(text[i], parent, 0.5)
			}
		}
		var w WouldAccept
		var followed spec.Tree
		for ; at < len(text); at++ {
			w.Propose(&followed, func(t *spec.Tree, _ int) {
				tree(t, at)
			})
			w.Drew(&followed, text[at:at+1])
		}
		passes := 0
		for at := 0; at < len(text); passes++ {
			var whole spec.Tree
			tree(&whole, at)
			node := spec.None
			for at < len(text) {
				node = whole.Child(node, text[at])
				at++
				if node == spec.None {
					break
				}
			}
		}
		require.Equal(t, passes, w.Passes)
		require.Equal(t, len(text), w.tokens)
	}
}
