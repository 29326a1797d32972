package sampler

import (
	"math"
	"slices"
)

// Top describes a row of logits by its largest ones, the largest first, and
// their tokens. No other logit of the row is larger than the last of them.
type Top struct {
	IDs    []int32
	Logits []float32
	// Vocab is the number of tokens of the whole row.
	Vocab int
	// Share is the probability of the first token at temperature 1, before any
	// filter. If the row is no distribution, Share is outside 0..1.
	Share float32
}

// Sane reports whether the row is a distribution: NaN, +Inf, or nothing but
// -Inf give no share. Half precision may round a share of 1 up a little.
func (t Top) Sane() bool {
	return len(t.IDs) > 0 && t.Share > 0 && t.Share < 1.01 && !math.IsInf(float64(t.Logits[0]), 0)
}

// ServedBy reports whether SampleTop may succeed with the best k logits of a
// row of vocab. An option needs the whole row if it sums over all tokens, or
// may raise the logit of a token that is not among the best.
func (o Options) ServedBy(k, vocab int) bool {
	raises := o.penalties() && (o.RepeatPenalty > 0 && o.RepeatPenalty < 1 || o.FrequencyPenalty < 0 || o.PresencePenalty < 0)
	needed := o.needed(vocab)
	return !raises && needed < vocab && needed < k
}

// needed returns how many of the best tokens of a row of n the later steps use.
func (o Options) needed(n int) int {
	switch {
	case o.Temperature <= 0 && !o.typical():
		return 1 // no other filter removes the best token
	case o.TopK > 0:
		return min(n, o.TopK)
	}
	return n
}

// SampleTop chooses the token that Sample would choose from the whole row, with
// the same draw. If the top does not determine it, ok is false, nothing was
// drawn, and the caller passes the row to Sample.
//
// A token that is not in the top has at most the top's last logit, and
// penalties only lower it. So the tokens with a larger logit, after penalties
// and mask, are the best of the row. If the last needed one only equals that
// logit, a token outside the top might have a lower id.
func (s *Sampler) SampleTop(t Top, mask Mask) (token int32, ok bool) {
	k := s.options.needed(t.Vocab)
	if !t.Sane() || !s.options.ServedBy(len(t.IDs), t.Vocab) {
		return 0, false
	}
	s.gatherTop(t, mask, k)
	if len(s.cands) < k {
		return 0, false
	}
	sortCandidates(s.cands)
	if s.cands[k-1].logit <= t.Logits[len(t.Logits)-1] {
		return 0, false
	}
	return s.choose(), true
}

// gatherTop collects the k best allowed tokens of the top after penalties, or
// fewer if the top does not have them.
func (s *Sampler) gatherTop(t Top, mask Mask, k int) {
	s.cands = s.cands[:0]
	for i, id := range t.IDs {
		c := candidate{id: id, logit: t.Logits[i]}
		full := len(s.cands) == k
		if full && c.logit < s.cands[0].logit {
			return // later ones are not larger, with or without penalties
		}
		if at, seen := slices.BinarySearchFunc(s.history.counts, id, byID); seen {
			c.logit = s.options.penalise(c.logit, s.history.counts[at].times)
		}
		if full && !better(&c, &s.cands[0]) || math.IsInf(float64(c.logit), -1) || mask != nil && !mask.Allowed(id) {
			continue
		}
		s.keep(c, k)
	}
}
