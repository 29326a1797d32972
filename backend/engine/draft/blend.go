package draft

import (
	"sync"

	"github.com/sdnpu/sdnpu/calibration"
	"github.com/sdnpu/sdnpu/spec"
)

const (
	// contextDepth is the longest context that counts are kept for; lookupDepth is
	// the longest one of prompt lookup.
	contextDepth, lookupDepth = 8, 3
	// observedDepth is the longest context of the model's probabilities.
	observedDepth = 4
	// databaseWeight is the initial value of an occurrence in an earlier text,
	// relative to one in this text. escape is the initial weight of unseen tokens
	// in a context; see [spec.Weights].
	databaseWeight, escape = 0.15, 3
	// learningRate is the step with which weights move. Recorded texts score the
	// same with 0.02 to 0.1.
	learningRate = 0.05
)

// blend is the product's [Proposer]: the counts of all sources in one tree, with
// weights that it learns.
type blend struct {
	mode    Mode
	learned *Experience
	begun   spec.Weights // the weights at the start of the request
	drafter *spec.Drafter
	table   *calibration.Table // nil if the mode does not observe the model
	context [observedDepth]int32
}

// newBlend returns a blend of the sources that the mode has: the text so far, the
// model's probabilities and the database.
func newBlend(m Mode, text *spec.Index, database spec.Source, learned *Experience) *blend {
	b := &blend{mode: m, learned: learned, drafter: spec.NewDrafter(escape)}
	if m.Lookup || m.Automaton {
		b.drafter.Use(text, 1)
	}
	if m.Calibration || m.Rejected() {
		b.table = calibration.New(calibration.Options{Depth: observedDepth})
		b.drafter.Use(b.table, 1)
	}
	if m.Database {
		b.drafter.Use(database, databaseWeight)
	}
	return b
}

// Begin implements [Proposer]: it starts with the weights that earlier requests
// learned.
func (b *blend) Begin([]int32) {
	if b.table != nil {
		b.table.Reset()
	}
	b.learned.recall(&b.drafter.Weights)
	b.begun = b.drafter.Weights
}

// learn moves the weights: token follows text and no source has seen it yet.
func (b *blend) learn(text []int32, token int32) {
	b.drafter.Learn(text, token, learningRate)
}

// keep makes the learned weights available to later requests.
func (b *blend) keep() { b.learned.add(&b.begun, &b.drafter.Weights) }

// Observe implements [Proposer].
func (b *blend) Observe(context, tokens []int32, probabilities []float32) {
	b.table.Observe(context, tokens, probabilities)
}

// ObserveRejected implements [Proposer]. Without recycling it counts only a token
// that the draft had, too.
func (b *blend) ObserveRejected(text []int32, t *spec.Tree, row int32, tokens []int32, probabilities []float32) {
	if !b.mode.Recycling {
		if t.Child(row, tokens[0]) == spec.None {
			return
		}
		tokens, probabilities = tokens[:1], probabilities[:1]
	}
	b.table.Observe(b.contextOf(text, t, row), tokens, probabilities)
}

// contextOf returns the last tokens of text followed by the path to a row.
func (b *blend) contextOf(text []int32, t *spec.Tree, row int32) []int32 {
	at := len(b.context)
	for ; row != spec.None && at > 0; row = t.Parents[row] {
		at--
		b.context[at] = t.Tokens[row]
	}
	n := min(at, len(text))
	copy(b.context[at-n:at], text[len(text)-n:])
	return b.context[at-n:]
}

// Propose implements [Proposer].
func (b *blend) Propose(t *spec.Tree, text []int32, rows int) { b.drafter.Propose(t, text, rows) }

// Experience holds the weights that requests of one mode have learned. It ends
// with the process. It may be used from several goroutines. The zero value has
// learned nothing.
type Experience struct {
	mu      sync.Mutex // guards the fields below
	weights spec.Weights
	known   bool
}

// recall sets w to the learned weights, if there are any.
func (x *Experience) recall(w *spec.Weights) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known {
		*w = x.weights
	}
}

// add adds what a request learned from before to after. It multiplies the shared weights by this
// request's factors of change, so concurrent requests keep each other's changes.
func (x *Experience) add(before, after *spec.Weights) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known {
		x.weights, x.known = *before, true
	}
	x.weights.Change(before, after)
}
