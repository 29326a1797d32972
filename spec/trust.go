package spec

// Trust is what the score of a draft has turned out to be worth so far: scores
// are estimates, and text to text they are off by the same factor. The zero value
// takes them as they are.
type Trust struct{ expected, accepted float64 }

// forget makes the last few dozen trees count.
const forget = 0.97

// Observe tells of a verified tree: of the drafts with these scores so many were
// right.
func (t *Trust) Observe(scores []float32, accepted int) {
	t.expected *= forget
	t.accepted *= forget
	for _, score := range scores {
		t.expected += float64(score)
	}
	t.accepted += float64(accepted)
}

// Factor is by how much more or fewer drafts are right than scores say. It begins
// at one.
func (t *Trust) Factor() float64 { return (t.accepted + 1) / (t.expected + 1) }
