package whole

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// treeRows is the size of the draft tree that each model verifies.
const treeRows = 8

// run is what one device made of a subject.
type run struct {
	hidden [][]float32 // of the prompt's rows, per block
	logits [][]float32 // behind the prompt and behind each step
	tree   [][]float32 // of a draft tree's rows

	finalize, reload    time.Duration
	promptPass, oneStep time.Duration
}

// drafts is a random tree of tokens behind a sequence.
func drafts(vocabulary int) engine.Pass {
	rng := rand.New(rand.NewPCG(7, 11))
	var p engine.Pass
	for i := range treeRows {
		p.Rows = append(p.Rows, engine.Row{Token: int32(rng.IntN(vocabulary)), Parent: rng.IntN(i+1) - 1, Logits: true})
	}
	return p
}

// measure runs the prompt, a tree that is not committed, and then steps: the
// tokens that the float device chose, or, where there are none, its own.
func (s subject) measure(t *testing.T, d backend.Device, recipe string, cache *imagecache.Store, forced []int32) (r run, chosen []int32) {
	t.Helper()
	tapped := &tap{Device: d}
	e := s.engine(t, tapped, recipe, cache)
	r.finalize, r.reload = tapped.compile, tapped.load
	prompt := s.prompt(t)

	tapped.run = 0
	logits := slices.Clone(pass(t, e, prompt))
	r.promptPass, r.hidden = tapped.run, tapped.hidden
	r.logits = append(r.logits, logits)

	result, err := e.Forward(t.Context(), drafts(len(logits)))
	require.NoError(t, err)
	for _, l := range result.Logits {
		r.tree = append(r.tree, slices.Clone(l))
	}

	tapped.run = 0
	for i := range s.steps {
		next := best(logits)
		chosen = append(chosen, next)
		if forced != nil {
			next = forced[i]
		}
		logits = slices.Clone(pass(t, e, []int32{next}))
		r.logits = append(r.logits, logits)
	}
	if s.steps > 0 {
		r.oneStep = tapped.run / time.Duration(s.steps)
	}
	chosen = append(chosen, best(logits))
	return r, chosen
}

// verdict compares a run with the float device's.
type verdict struct {
	layers []float64 // relative error of what leaves each block
	logits float64   // of all logits
	tree   float64   // of the tree's
	// same counts the equal choices of all; first is the first other one, -1
	// for none, and gap how much the float device prefers its own there.
	same, all, first int
	gap              float64
	treeSame         int
}

func judge(r, float run) verdict {
	v := verdict{first: -1, all: len(float.logits)}
	for i := range float.hidden {
		v.layers = append(v.layers, relative(r.hidden[i], float.hidden[i]))
	}
	v.logits = relative(slices.Concat(r.logits...), slices.Concat(float.logits...))
	v.tree = relative(slices.Concat(r.tree...), slices.Concat(float.tree...))
	for i, want := range float.logits {
		w, g := best(want), best(r.logits[i])
		if w == g {
			v.same++
			continue
		}
		v.gap = math.Max(v.gap, float64(want[w]-want[g]))
		if v.first < 0 {
			v.first = i
		}
	}
	for i, want := range float.tree {
		if best(want) == best(r.tree[i]) {
			v.treeSame++
		}
	}
	return v
}
