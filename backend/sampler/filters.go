package sampler

import (
	"cmp"
	"math"
	"slices"
)

// If some logits are +Inf, keepInfinite keeps only their tokens, with equal
// probabilities. If a logit is +Inf, all tokens with smaller logits have a probability
// of zero.
func (s *Sampler) keepInfinite() {
	if !math.IsInf(float64(s.best().logit), 1) {
		return
	}
	kept := s.cands[:0]
	for _, c := range s.cands {
		if math.IsInf(float64(c.logit), 1) {
			kept = append(kept, candidate{id: c.id})
		}
	}
	s.cands = kept
}

// softmax sets the probability p of each candidate. softmax returns the best logit (top) and
// the logarithm of the sum of all exp(logit - top) (lnSum). The formula ln p = logit - top -
// lnSum also holds if p is too small for a float.
func (s *Sampler) softmax() (top, lnSum float64) {
	top = float64(s.best().logit)
	sum := 0.0
	for i := range s.cands {
		c := &s.cands[i]
		c.p = math.Exp(float64(c.logit) - top)
		sum += c.p
	}
	for i := range s.cands {
		s.cands[i].p /= sum
	}
	return top, math.Log(sum)
}

// typical keeps the tokens whose surprise (-ln p) is nearest to the entropy, until
// their total probability exceeds TypicalP.
func (s *Sampler) typical() {
	if !s.options.typical() {
		return
	}
	top, lnSum := s.softmax()
	entropy := 0.0
	for i := range s.cands {
		c := &s.cands[i]
		c.far = lnSum + top - float64(c.logit) // far holds the token's surprise, -ln p, until the entropy is known
		entropy += c.p * c.far
	}
	for i := range s.cands {
		s.cands[i].far = math.Abs(s.cands[i].far - entropy)
	}
	limit := float64(s.options.TypicalP)
	s.keepUntil(moreTypical, func(mass float64) bool { return mass > limit })
}

// nucleus keeps the likeliest tokens until their total probability reaches TopP.
func (s *Sampler) nucleus() {
	if !s.options.nucleus() {
		return
	}
	s.softmax()
	limit := float64(s.options.TopP)
	s.keepUntil(better, func(mass float64) bool { return mass >= limit })
}

// minP drops each token whose probability is less than MinP times the probability of the best
// token.
func (s *Sampler) minP() {
	if s.options.MinP <= 0 {
		return
	}
	least := float64(s.best().logit) + math.Log(min(float64(s.options.MinP), 1))
	s.cands = slices.DeleteFunc(s.cands, func(c candidate) bool { return float64(c.logit) < least })
}

// keepUntil keeps candidates in the order that the function `first` defines, until the function
// `enough` returns true for their total probability. keepUntil uses a heap, so that unlikely
// tokens need not be sorted.
func (s *Sampler) keepUntil(first func(a, b *candidate) bool, enough func(mass float64) bool) {
	heapify(s.cands, first)
	mass := 0.0
	rest := len(s.cands)
	for rest > 0 && !enough(mass) {
		rest--
		s.cands[0], s.cands[rest] = s.cands[rest], s.cands[0]
		mass += s.cands[rest].p
		down(s.cands[:rest], 0, first)
	}
	slices.Reverse(s.cands)
	s.cands = s.cands[:len(s.cands)-rest]
}

func better(a, b *candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.id < b.id
}

func worse(a, b *candidate) bool { return better(b, a) }

func moreTypical(a, b *candidate) bool {
	return a.far < b.far || a.far == b.far && a.id < b.id
}

func sortCandidates(c []candidate) {
	slices.SortFunc(c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
	})
}

// heapify orders the candidates c as a heap, with the candidate that precedes all
// others at c[0].
func heapify(c []candidate, before func(a, b *candidate) bool) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		down(c, i, before)
	}
}

// down moves candidate c[i] down to its place in the heap.
func down(c []candidate, i int, before func(a, b *candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(c) {
			return
		}
		if r := child + 1; r < len(c) && before(&c[r], &c[child]) {
			child = r
		}
		if !before(&c[child], &c[i]) {
			return
		}
		c[i], c[child] = c[child], c[i]
		i = child
	}
}
