package sampler

import (
	"math"
	"slices"
)

// Top is what is known of a row of logits without reading all of it: its
// largest ones, the largest first, and the tokens they belong to. No other
// logit of the row is larger than the last of them.
type Top struct {
	IDs    []int32
	Logits []float32
	// Vocab is how many tokens the whole row has.
	Vocab int
	// Share is the probability of the first token, at temperature 1 and before
	// any filter. It is not within 0 to 1 where the row is no distribution.
	Share float32
}

// Sane reports whether the row is a distribution: NaN, +Inf, and nothing but
// -Inf leave no share. Half precision may round one of 1 up a little.
func (t Top) Sane() bool {
	return len(t.IDs) > 0 && t.Share > 0 && t.Share < 1.01 && !math.IsInf(float64(t.Logits[0]), 0)
}

// ServedBy reports whether SampleTop may succeed with the best k logits of a
// row of vocab: an option that asks for a sum over all tokens, or that may
// raise the logit of one which is not among the best, needs the whole row.
func (o Options) ServedBy(k, vocab int) bool {
	raises := o.penalties() && (o.RepeatPenalty > 0 && o.RepeatPenalty < 1 || o.FrequencyPenalty < 0 || o.PresencePenalty < 0)
	wanted := o.wanted(vocab)
	return !raises && wanted < vocab && wanted < k
}

// wanted is how many of the best tokens of a row of n all later steps look at.
func (o Options) wanted(n int) int {
	switch {
	case o.Temperature <= 0 && !o.typical():
		return 1 // no other filter removes the best token
	case o.TopK > 0:
		return min(n, o.TopK)
	}
	return n
}

// SampleTop chooses the token that Sample would choose of the whole row, with
// the same draw, or reports that the top does not determine it: Sample has to
// be given the row then. Nothing has been drawn in that case.
//
// A token behind the top has at most the last logit of it, and penalties only
// lower that. So the tokens of which more is larger than it, after penalties
// and mask, are the best of the row. Where the last of those that are wanted
// only equals it, a token of a lower id might stand behind the top.
func (s *Sampler) SampleTop(t Top, mask Mask) (token int32, ok bool) {
	k := s.options.wanted(t.Vocab)
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

// gatherTop fills the scratch with the k best allowed tokens of the top, after
// penalties, or with as many as there are.
func (s *Sampler) gatherTop(t Top, mask Mask, k int) {
	s.cands = s.cands[:0]
	for i, id := range t.IDs {
		c := candidate{id: id, logit: t.Logits[i]}
		full := len(s.cands) == k
		if full && c.logit < s.cands[0].logit {
			return // what follows is no larger, before penalties and after
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
