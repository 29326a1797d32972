package spec

// None is the parent of rows that follow the last committed token.
const None int32 = -1

// Tree is a draft: rows that continue the committed text, each with its parent
// among the rows before it. Siblings carry different tokens. The zero value is
// an empty draft; Reset keeps the memory.
type Tree struct {
	// Tokens and Parents describe row i; Parents[i] < i, or [None].
	Tokens, Parents []int32
	// Scores estimate the probability that row i is accepted. They never grow
	// from a row to its children.
	Scores []float32
}

// Len is the number of rows.
func (t *Tree) Len() int { return len(t.Tokens) }

// Reset empties the tree and keeps its memory.
func (t *Tree) Reset() {
	t.Tokens, t.Parents, t.Scores = t.Tokens[:0], t.Parents[:0], t.Scores[:0]
}

// Add appends a row and returns its index. The caller keeps siblings distinct.
func (t *Tree) Add(token, parent int32, score float32) int32 {
	t.Tokens = append(t.Tokens, token)
	t.Parents = append(t.Parents, parent)
	t.Scores = append(t.Scores, score)
	return int32(len(t.Tokens) - 1)
}

// Head is a view of the first n rows, which are a tree, too.
func (t *Tree) Head(n int) *Tree {
	return &Tree{Tokens: t.Tokens[:n], Parents: t.Parents[:n], Scores: t.Scores[:n]}
}

// Child returns the row that continues parent with token, or [None].
func (t *Tree) Child(parent, token int32) int32 {
	for i := int(parent) + 1; i < len(t.Tokens); i++ {
		if t.Parents[i] == parent && t.Tokens[i] == token {
			return int32(i)
		}
	}
	return None
}

// Keep leaves out the rows that come first and may not, and all that follow them.
func (t *Tree) Keep(may func(token int32) bool) {
	moved, n := make([]int32, t.Len()), int32(0)
	for i, parent := range t.Parents {
		if parent != None {
			parent = moved[parent]
		} else if !may(t.Tokens[i]) {
			parent = dropped
		}
		if moved[i] = dropped; parent != dropped {
			t.Tokens[n], t.Parents[n], t.Scores[n] = t.Tokens[i], parent, t.Scores[i]
			moved[i] = n
			n++
		}
	}
	t.Tokens, t.Parents, t.Scores = t.Tokens[:n], t.Parents[:n], t.Scores[:n]
}

// dropped stands for a row that is left out.
const dropped int32 = -2
