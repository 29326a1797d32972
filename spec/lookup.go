package spec

// Lookup is prompt lookup decoding, the usual baseline: the last few tokens are
// looked for in the text so far, and what followed them there is the draft, a
// single chain.
type Lookup struct {
	// MaxNgram is the longest end of the text that is looked for; shorter ones
	// follow. Zero means 3.
	MaxNgram int
	// Tokens is the length of the draft. Zero means 10.
	Tokens int
	// Latest takes the latest occurrence and drafts what there is; without it
	// the first one that Tokens tokens follow counts, as in the published code.
	Latest bool
}

// Propose fills an empty tree with at most rows rows that continue text. It
// scans the text: O(len(text)·MaxNgram).
func (l Lookup) Propose(t *Tree, text []int32, rows int) {
	longest, tokens := l.MaxNgram, l.Tokens
	if longest == 0 {
		longest = 3
	}
	if tokens == 0 {
		tokens = 10
	}
	for n := min(longest, len(text)-1); n >= 1; n-- {
		if at := l.find(text, n, tokens); at >= 0 {
			t.chain(text[at:min(at+tokens, at+rows, len(text))])
			return
		}
	}
}

// find returns what follows an earlier occurrence of the last n tokens, or -1.
func (l Lookup) find(text []int32, n, tokens int) int {
	end := len(text) - n
	found := -1
	for at := 0; at < end && (found < 0 || l.Latest); at++ {
		if !l.Latest && at+n+tokens > len(text) {
			break
		}
		if matches(text[at:], text[end:]) {
			found = at + n
		}
	}
	return found
}

// matches reports whether text begins with prefix.
func matches(text, prefix []int32) bool {
	for i, token := range prefix {
		if text[i] != token {
			return false
		}
	}
	return true
}

// chain appends tokens, each the only child of the one before.
func (t *Tree) chain(tokens []int32) {
	parent := None
	for _, token := range tokens {
		parent = t.Add(token, parent, 1)
	}
}
