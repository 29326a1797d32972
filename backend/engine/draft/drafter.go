package draft

import "github.com/sdnpu/sdnpu/spec"

// Drafter drafts for one sequence. It keeps the text, asks its [Proposer] for trees and holds the
// database's lock while the proposer reads the database. It belongs to one goroutine.
type Drafter struct {
	mode     Mode
	database *Database
	text     *spec.Index
	prompt   int // length of the prompt in tokens
	proposer Proposer
	blend    *blend // the proposer, if it learns; nil for a baseline
	allowed  func(token int32) bool

	// fill draws tree; study learns from token. New makes both once, so that
	// calling them allocates nothing.
	tree        *spec.Tree
	rows        int
	token       int32
	fill, study func() error
}

// New returns a drafter. database may be nil unless the mode has Database. The
// drafter continues from learned, which all drafters of a mode share.
func New(m Mode, database *Database, learned *Experience) *Drafter {
	d := &Drafter{mode: m, database: database, text: spec.NewIndex(m.depth())}
	var source spec.Source
	if m.Database {
		source = shared{database}
	}
	if m.Baseline != nil {
		d.proposer = m.Baseline.New(m, source)
	} else {
		d.blend = newBlend(m, d.text, source, learned)
		d.proposer = d.blend
	}
	d.fill = func() error {
		d.proposer.Propose(d.tree, d.text.Text(), d.rows)
		return nil
	}
	d.study = func() error {
		d.blend.learn(d.text.Text(), d.token)
		return nil
	}
	return d
}

// depth returns the longest context that the text is indexed for.
func (m Mode) depth() int {
	if m.Lookup && !m.Automaton {
		return lookupDepth
	}
	return contextDepth
}

// Len returns the number of tokens of the text.
func (d *Drafter) Len() int { return d.text.Len() }

// Begin starts a request. The prompt holds all earlier tokens of the sequence.
func (d *Drafter) Begin(prompt []int32) {
	d.text.Reset()
	d.text.Reserve(len(prompt))
	d.proposer.Begin(prompt)
	d.prompt = len(prompt)
	if d.mode.Database {
		d.database.refresh()
	}
	for _, token := range prompt {
		d.text.Append(token)
	}
}

// Commit appends emitted tokens and learns from them how much each source is
// worth.
func (d *Drafter) Commit(tokens []int32) {
	for _, token := range tokens {
		if d.blend != nil {
			d.token = token
			if d.mode.Database {
				d.database.read(d.study)
			} else {
				_ = d.study()
			}
		}
		d.text.Append(token)
	}
}

// Observe reports the tokens that the model found likely after the token at a
// position of the text, the most likely first.
func (d *Drafter) Observe(position int, tokens []int32, probabilities []float32) {
	if d.mode.Calibration {
		d.proposer.Observe(d.text.Text()[:position+1], tokens, probabilities)
	}
}

// ObserveRejected reports the tokens that the model found likely after a drafted
// row that was not accepted. last is the position of the token that the tree
// followed.
func (d *Drafter) ObserveRejected(last int, t *spec.Tree, row int32, tokens []int32, probabilities []float32) {
	if d.mode.Rejected() && len(tokens) > 0 {
		d.proposer.ObserveRejected(d.text.Text()[:last+1], t, row, tokens, probabilities)
	}
}

// Restrict limits the first token of a draft to tokens that allowed accepts, such as a grammar's
// tokens; other drafts would be wasted. Nil allows all.
func (d *Drafter) Restrict(allowed func(token int32) bool) {
	d.allowed = allowed
	if d.blend != nil {
		d.blend.drafter.First = allowed // rejects tokens before they take rows
	}
}

// Propose fills an empty tree with up to rows rows.
func (d *Drafter) Propose(t *spec.Tree, rows int) {
	d.tree, d.rows = t, rows
	if !d.mode.Database {
		_ = d.fill()
	} else if !d.database.read(d.fill) {
		t.Reset()
		d.database.read(d.fill)
	}
	if d.allowed != nil {
		t.Keep(d.allowed) // for proposers that do not check allowed themselves
	}
}

// End ends the request. If the request succeeded, its output is remembered.
func (d *Drafter) End(success bool) {
	if !success {
		return
	}
	if d.blend != nil {
		d.blend.keep()
	}
	if d.mode.Database {
		d.database.remember(d.text.Text(), d.prompt)
	}
}
