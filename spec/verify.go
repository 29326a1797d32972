package spec

// Verify walks a tree along the model's choices. choose returns the token that the
// model chooses after a row, or after the committed text for [None]. It must draw
// with the same rule and random numbers as plain decoding. Verify calls it once per
// emitted token, in order, so a seed gives the same text with any tree or none.
//
// Verify appends the accepted rows to path. It appends the tokens of these rows and one further
// token to tokens. choose ends the walk by returning false with a token after which nothing may
// follow.
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

// Trust measures how many drafts are accepted per expected one. Scores estimate the probability of
// acceptance. Within a text they are off by about the same factor. The zero value trusts the
// scores.
type Trust struct{ expected, accepted float64 }

// forget is the decay of old trees, so that only the last few dozen count.
const forget = 0.97

// Observe adds a verified tree: the scores of its rows and the number of accepted
// ones.
func (t *Trust) Observe(scores []float32, accepted int) {
	t.expected *= forget
	t.accepted *= forget
	for _, score := range scores {
		t.expected += float64(score)
	}
	t.accepted += float64(accepted)
}

// Factor returns the number of accepted drafts per expected one. It starts at one.
func (t *Trust) Factor() float64 { return (t.accepted + 1) / (t.expected + 1) }
