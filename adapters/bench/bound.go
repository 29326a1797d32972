package bench

import (
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/spec"
	"github.com/sdnpu/sdnpu/spec/replay"
)

// ErrNoReplay is returned for draft extension: what the model says behind a
// wrong token is not recorded.
var ErrNoReplay = errors.New("ext cannot be replayed, since the model's choices after wrong tokens are not recorded: leave it out, or bound it by --ext-bound lower or upper")

// Bound says how draft extension is replayed.
type Bound string

// Without a bound extension is refused. The lower bound is a tree without it; the
// upper one lets an oracle keep just those parts of rejected drafts that come soon, which
// is more than any model's agreement can tell.
const (
	NoBound    Bound = ""
	LowerBound Bound = "lower"
	UpperBound Bound = "upper"
)

// ParseBound reads a bound.
func ParseBound(s string) (Bound, error) {
	switch b := Bound(s); b {
	case NoBound, LowerBound, UpperBound:
		return b, nil
	}
	return NoBound, fmt.Errorf("--ext-bound %.80q: lower or upper wanted", s)
}

// soon is how many tokens ahead the oracle looks.
const soon = 32

// oracle is a drafter whose extension knows the text to come: behind rejected
// rows the model is said to agree with a draft if and only if both tokens come
// in a row soon.
type oracle struct {
	*draft.Drafter
	tree   spec.Tree
	output []int32
	said   int  // of the output
	frozen bool // remembers no request
}

func (o *oracle) Begin(prompt []int32) {
	o.said = 0
	o.tree.Reset()
	o.Drafter.Begin(prompt)
}

func (o *oracle) End(well bool) { o.Drafter.End(well && !o.frozen) }

func (o *oracle) Propose(t *spec.Tree, rows int) {
	o.Drafter.Propose(t, rows)
	o.tree.Reset()
	for i, token := range t.Tokens {
		o.tree.Add(token, t.Parents[i], t.Scores[i])
	}
}

func (o *oracle) Commit(said []int32) {
	o.Drafter.Commit(said)
	o.said += len(said)
	accepted, node := make(map[int32]bool), spec.None
	for _, token := range said {
		if node = o.tree.Child(node, token); node == spec.None {
			break
		}
		accepted[node] = true
	}
	last := o.Len() - len(said) - 1
	for row, parent := range o.tree.Parents {
		if parent != spec.None && !accepted[parent] && o.comes(o.tree.Tokens[parent], o.tree.Tokens[row]) {
			o.ObserveRejected(last, &o.tree, parent, o.tree.Tokens[row:row+1], []float32{1})
		}
	}
	o.tree.Reset()
}

// foresee tells an oracle the text to come.
func foresee(d replay.Drafter, output []int32) {
	if o, ok := d.(*oracle); ok {
		o.output = output
	}
}

// comes tells whether two tokens come in a row soon; the first may be the newest
// one.
func (o *oracle) comes(first, second int32) bool {
	ahead := o.output[o.said-1 : min(o.said+soon, len(o.output))]
	for i := 1; i < len(ahead); i++ {
		if ahead[i-1] == first && ahead[i] == second {
			return true
		}
	}
	return false
}
