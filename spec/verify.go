package spec

// Verify walks a tree along what the model says: choose returns the token that
// the model puts after a row, or after the committed text for [None], drawn by
// the very rule and random numbers of plain decoding. It is asked once per
// emitted token, in order, so the same seed gives the same text with any tree
// or none.
//
// It appends the accepted rows to path and the emitted tokens to tokens: those
// of the path and one more, which no row carries. choose ends the walk early by
// returning false with a token that nothing may follow.
func Verify(t *Tree, choose func(row int32) (token int32, more bool), path, tokens []int32) ([]int32, []int32) {
	row := None
	for {
		token, more := choose(row)
		tokens = append(tokens, token)
		if !more {
			return path, tokens
		}
		if row = t.Child(row, token); row == None {
			return path, tokens
		}
		path = append(path, row)
	}
}
