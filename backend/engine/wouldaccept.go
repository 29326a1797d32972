package engine

import "github.com/sdnpu/sdnpu/spec"

// wouldAccept finds out what drafts would have been accepted, while the decode graphs have
// one row and so compute no drafts. It compares drafts with the tokens that are drawn, and
// needs new drafts only after a token that was not among them. The chooser needs this to
// notice that wider decode graphs would pay.
type wouldAccept struct {
	// node is the draft that was drawn last, or [spec.None] at the root of the tree.
	node int32
	// following is set while drawn tokens are compared with a draft tree.
	following bool
	// passes counts the passes that wider decode graphs would have needed, and tokens the tokens
	// that these passes would have given.
	passes, tokens int
}

// wouldRows is the width of the decode graphs for which drafts are compared: the next wider
// ones.
const wouldRows = 8

// propose fills an empty tree with drafts if the tokens have left the last one.
func (w *wouldAccept) propose(t *spec.Tree, drafts func(*spec.Tree, int)) {
	if w.following {
		return
	}
	t.Reset()
	drafts(t, wouldRows-1)
	w.node, w.following = spec.None, true
	w.passes++
}

// drew follows drawn tokens in the tree.
func (w *wouldAccept) drew(t *spec.Tree, tokens []int32) {
	for _, token := range tokens {
		if !w.following {
			return
		}
		w.tokens++
		w.node = t.Child(w.node, token)
		w.following = w.node != spec.None
	}
}

// acceptLength returns the tokens per pass, or zero if nothing was compared.
func (w *wouldAccept) acceptLength() float64 {
	if w.passes == 0 {
		return 0
	}
	return float64(w.tokens) / float64(w.passes)
}
