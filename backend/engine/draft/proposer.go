package draft

import "github.com/sdnpu/sdnpu/spec"

// Baseline makes a published drafter, with which the laboratory compares the
// product's blend of sources. The product has no implementation. Values must be
// comparable, because modes are compared.
type Baseline interface {
	// New returns the proposer of one sequence. It may read database inside
	// Propose only; database is nil unless the mode has it.
	New(m Mode, database spec.Source) Proposer
	// Name returns the mode's name.
	Name(m Mode) string
}

// Proposer draws draft trees for one sequence. A [Drafter] keeps the text and the
// database around it.
type Proposer interface {
	// Begin starts a request.
	Begin(prompt []int32)
	// Observe reports the tokens that the model found likely after context, the
	// most likely first.
	Observe(context, tokens []int32, probabilities []float32)
	// ObserveRejected reports the same after a row that was not accepted. The tree
	// continued text.
	ObserveRejected(text []int32, t *spec.Tree, row int32, tokens []int32, probabilities []float32)
	// Propose fills an empty tree with at most rows rows that continue text.
	Propose(t *spec.Tree, text []int32, rows int)
}
