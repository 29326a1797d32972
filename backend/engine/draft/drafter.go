package draft

import (
	"github.com/sdnpu/sdnpu/calibration"
	"github.com/sdnpu/sdnpu/spec"
)

const (
	// contextDepth is the longest context that counts are kept for, lookupDepth
	// that of prompt lookup.
	contextDepth, lookupDepth = 8, 3
	// observedDepth is the longest context of the model's probabilities.
	observedDepth = 4
	// databaseWeight is what an occurrence in an earlier text counts for beside
	// one in this text, and escape how much a context distrusts itself, before
	// something has been learned.
	databaseWeight, escape = 0.15, 3
	// learningRate is how fast weights move. Recorded texts score the same with
	// 0.02 to 0.1.
	learningRate = 0.05
)

// Drafter drafts for one sequence.
type Drafter struct {
	mode      Mode
	database  *Database
	learned   *Experience
	begun     spec.Weights // as they were when the request began
	context   *spec.Index
	automaton *spec.Automaton
	published *published
	table     *calibration.Table
	blend     *spec.Drafter
	prompt    int // tokens of the prompt
	end       [observedDepth]int32
	// fill draws tree, study learns from token: made once, so that they cost no
	// memory.
	tree        *spec.Tree
	rows        int
	token       int32
	fill, study func() error
}

// New returns a drafter; database may be nil unless the mode asks for it. It goes
// on with what is in learned, where others of the same mode leave it.
func New(m Mode, database *Database, learned *Experience) *Drafter {
	d := &Drafter{mode: m, database: database, learned: learned, context: spec.NewIndex(m.depth())}
	if m.table() {
		d.table = calibration.New(calibration.Options{Depth: observedDepth})
	}
	if m == (Mode{Automaton: true}) {
		d.automaton = spec.NewAutomaton(nil)
	}
	if m.Published {
		d.published = newPublished(m, database)
	}
	d.blend = spec.NewDrafter(escape)
	d.fill = func() error {
		if d.published != nil {
			d.published.propose(d.tree, d.context.Text(), d.rows)
		} else {
			d.blend.Propose(d.tree, d.context.Text(), d.rows)
		}
		return nil
	}
	d.study = func() error {
		d.blend.Learn(d.context.Text(), d.token, learningRate)
		return nil
	}
	if m.Lookup || m.Automaton {
		d.blend.Use(d.context, 1)
	}
	if m.table() {
		d.blend.Use(d.table, 1)
	}
	if m.Database {
		d.blend.Use(shared{database}, databaseWeight)
	}
	return d
}

func (m Mode) depth() int {
	if m.Lookup && !m.Automaton {
		return lookupDepth
	}
	return contextDepth
}

// shared is a database as a source, within its read.
type shared struct{ *Database }

func (s shared) Levels(context []int32, total, distinct []float32, first []int32) int {
	if source := s.source(); source != nil {
		return source.Levels(context, total, distinct, first)
	}
	return 0
}

func (s shared) Successor(at int32) (int32, float32, int32) { return s.source().Successor(at) }

// Len is the number of tokens of the text.
func (d *Drafter) Len() int { return d.context.Len() }

// Begin starts a request. What the sequence said before is in the prompt.
func (d *Drafter) Begin(prompt []int32) {
	d.context.Reset()
	d.context.Reserve(len(prompt))
	if d.table != nil {
		d.table.Reset()
	}
	if d.automaton != nil {
		d.automaton.Reset()
	}
	if d.published != nil {
		d.published.begin(prompt)
	}
	d.learned.recall(&d.blend.Weights)
	d.begun = d.blend.Weights
	d.prompt = len(prompt)
	if d.mode.Database {
		d.database.refresh()
	}
	d.append(prompt)
}

// Commit appends tokens that were said, and learns from them what the sources
// are worth.
func (d *Drafter) Commit(tokens []int32) {
	for i, token := range tokens {
		switch d.token = token; {
		case !d.mode.learns():
		case d.mode.Database:
			d.database.read(d.study)
		default:
			_ = d.study()
		}
		d.append(tokens[i : i+1])
	}
}

func (d *Drafter) append(tokens []int32) {
	for _, token := range tokens {
		d.context.Append(token)
		if d.automaton != nil {
			d.automaton.Append(token)
		}
		if d.published != nil {
			d.published.commit(token)
		}
	}
}

// Observe tells what the model thought likely after the token at a position of
// the text: tokens and probabilities, likeliest first.
func (d *Drafter) Observe(position int, tokens []int32, probabilities []float32) {
	if !d.mode.Calibration {
		return
	}
	if d.published != nil {
		d.published.observe(position, d.context.Text()[position], tokens, probabilities)
	}
	if d.table != nil {
		d.table.Observe(d.context.Text()[:position+1], tokens, probabilities)
	}
}

// ObserveRejected tells what the model thought likely behind a draft that was
// not accepted. last is the position of the token that the tree followed.
func (d *Drafter) ObserveRejected(last int, t *spec.Tree, row int32, tokens []int32, probabilities []float32) {
	if len(tokens) == 0 {
		return
	}
	if d.published != nil {
		if d.mode.Extension {
			d.published.reuse.rejected(t, row, tokens[0])
		}
		return
	}
	if !d.mode.Recycling {
		if t.Child(row, tokens[0]) == spec.None {
			return
		}
		tokens, probabilities = tokens[:1], probabilities[:1]
	}
	d.table.Observe(d.behind(last, t, row), tokens, probabilities)
}

// behind is the end of the text that a draft ends.
func (d *Drafter) behind(last int, t *spec.Tree, row int32) []int32 {
	at := len(d.end)
	for ; row != spec.None && at > 0; row = t.Parents[row] {
		at--
		d.end[at] = t.Tokens[row]
	}
	text := d.context.Text()[:last+1]
	n := min(at, len(text))
	copy(d.end[at-n:at], text[len(text)-n:])
	return d.end[at-n:]
}

// Restrict has drafts begin with tokens that may come next, as a grammar's mask
// says; others would be wasted. Nil lets all begin.
func (d *Drafter) Restrict(may func(token int32) bool) { d.blend.First = may }

// Propose fills an empty tree with up to rows rows.
func (d *Drafter) Propose(t *spec.Tree, rows int) {
	if may := d.blend.First; may != nil {
		defer func() { t.Keep(may) }() // not every mode asks while it drafts
	}
	switch d.tree, d.rows = t, rows; {
	case d.automaton != nil:
		d.automaton.Propose(t, rows)
	case d.mode.chain():
		spec.Lookup{}.Propose(t, d.context.Text(), rows)
	case d.mode.Database:
		if !d.database.read(d.fill) {
			t.Reset()
			d.database.read(d.fill)
		}
	default:
		_ = d.fill()
	}
}

// End ends the request; one that went well is remembered.
func (d *Drafter) End(well bool) {
	if well && d.mode.learns() {
		d.learned.add(&d.begun, &d.blend.Weights)
	}
	if well && d.mode.Database {
		d.database.remember(d.context.Text(), d.prompt)
	}
}
