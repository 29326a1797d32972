package spec

// None is the parent of rows that follow the last committed token.
const None int32 = -1

// Tree is a draft tree: rows that continue the committed text, each with a parent
// among the rows before it. Siblings have different tokens. The zero value is an
// empty draft.
type Tree struct {
	// Tokens and Parents describe row i. Parents[i] is less than i, or [None].
	Tokens, Parents []int32
	// Scores estimate the probability that row i is accepted. A child's score is at
	// most its parent's.
	Scores []float32
}

// Len returns the number of rows.
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

// Head returns the first n rows, which are a tree too. It shares t's memory.
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

// Keep removes the first rows whose token allowed rejects, with all rows that
// follow them. It does not ask about later rows.
func (t *Tree) Keep(allowed func(token int32) bool) {
	moved, n := make([]int32, t.Len()), int32(0)
	for i, parent := range t.Parents {
		if parent != None {
			parent = moved[parent]
		} else if !allowed(t.Tokens[i]) {
			parent = removed
		}
		if moved[i] = removed; parent != removed {
			t.Tokens[n], t.Parents[n], t.Scores[n] = t.Tokens[i], parent, t.Scores[i]
			moved[i] = n
			n++
		}
	}
	t.Tokens, t.Parents, t.Scores = t.Tokens[:n], t.Parents[:n], t.Scores[:n]
}

// removed marks a row that Keep removes.
const removed int32 = -2
