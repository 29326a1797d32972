package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// stream is the second half of the random generator's seed.
const stream = 0x73646e7075 // the bytes of this number spell "sdnpu"

// Sampler draws the tokens of one output text. A Sampler belongs to one goroutine.
type Sampler struct {
	options Options
	history history
	pcg     *rand.PCG
	cands   []candidate // cands is memory that each draw reuses
}

// candidate is a token that the filters have kept so far. softmax sets its probability
// p.
type candidate struct {
	id    int32
	logit float32
	p     float64
	far   float64 // far is the distance between the token's surprise and the entropy, for the filter typical-p
}

// New returns a Sampler that chooses tokens by the given temperature, filters and penalties. If a
// sampling option is invalid, the error wraps [ErrOptions].
func New(o Options) (*Sampler, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	s := &Sampler{options: o, pcg: rand.NewPCG(o.Seed, stream)}
	s.history.n = o.RepeatLastN
	return s, nil
}

// Accept counts a token as recent, for the penalties. The caller of Accept must pass
// all tokens of the prompt, and each token that it keeps; Sample itself does not call
// Accept. Accept ignores negative token ids.
func (s *Sampler) Accept(token int32) {
	if token >= 0 && s.options.penalties() {
		s.history.add(token)
	}
}

// Sample chooses the next token from the logits of all tokens. Sample does not change the slice
// `logits`. If the mask is nil, all tokens are allowed. If the mask is a [Counter] that allows
// exactly one token, Sample returns that token without reading the logits.
func (s *Sampler) Sample(logits []float32, mask Mask) (int32, error) {
	if token, ok := s.only(mask); ok {
		return token, nil
	}
	if len(logits) == 0 {
		return 0, fmt.Errorf("sampler: %w: the row has no logits", ErrLogits)
	}
	if err := s.gather(logits, mask, s.options.needed(len(logits))); err != nil {
		return 0, err
	}
	return s.choose(), nil
}

// The method `only` returns the token of a mask that allows exactly one token. Unless the
// sampler is greedy, the method `only` takes one number from the random generator, as every
// draw does.
func (s *Sampler) only(mask Mask) (token int32, ok bool) {
	if c, counts := mask.(Counter); counts {
		if token, ok = c.Only(); ok && s.options.Temperature > 0 {
			s.pcg.Uint64()
		}
	}
	return token, ok
}

// choose applies the filters to the candidate tokens and chooses one of them.
func (s *Sampler) choose() int32 {
	s.keepInfinite()
	s.typical()
	s.nucleus()
	s.minP()
	if s.options.Temperature <= 0 {
		return s.best().id
	}
	return s.draw()
}

// gather collects the k best allowed tokens, after biases and penalties. gather sorts the tokens
// by logit if k is less than the length of the row, and otherwise by id.
func (s *Sampler) gather(logits []float32, mask Mask, k int) error {
	s.cands = s.cands[:0]
	seen, biases := s.history.counts, s.options.Bias
	for i, logit := range logits {
		id := int32(i)
		for len(biases) > 0 && biases[0].Token <= id {
			if biases[0].Token == id {
				logit = biases[0].add(logit)
			}
			biases = biases[1:]
		}
		if len(seen) > 0 && seen[0].id == id {
			logit = s.options.penalise(logit, seen[0].times)
			seen = seen[1:]
		}
		full := len(s.cands) == k
		// The method gather reads tokens by ascending id, so of equal logits the earlier one is
		// kept. A logit of NaN passes the comparison with the worst candidate, and the next
		// comparison rejects NaN.
		if full && logit <= s.cands[0].logit {
			continue
		}
		if logit != logit {
			return fmt.Errorf("sampler: %w: the logit of token %d is NaN", ErrLogits, id)
		}
		if math.IsInf(float64(logit), -1) || mask != nil && !mask.Allowed(id) {
			continue
		}
		if c := (candidate{id: id, logit: logit}); k < len(logits) {
			s.keep(c, k)
		} else {
			s.cands = append(s.cands, c)
		}
	}
	if len(s.cands) == 0 {
		return fmt.Errorf("sampler: %w", ErrNoToken)
	}
	if k < len(logits) {
		sortCandidates(s.cands)
	}
	return nil
}

// keep adds a token to the candidates. If there are k candidates already, the new candidate
// replaces the worst candidate, which is the first element of the heap.
func (s *Sampler) keep(c candidate, k int) {
	if len(s.cands) == k {
		s.cands[0] = c
		down(s.cands, 0, worse)
		return
	}
	if s.cands = append(s.cands, c); len(s.cands) == k {
		heapify(s.cands, worse)
	}
}

// best returns the candidate with the largest logit, and among equal ones that with the
// lowest id.
func (s *Sampler) best() candidate {
	best := s.cands[0]
	for _, c := range s.cands[1:] {
		if better(&c, &best) {
			best = c
		}
	}
	return best
}

// draw draws a random number and returns the token that it selects.
func (s *Sampler) draw() int32 {
	top, t := float64(s.best().logit), float64(s.options.Temperature)
	total := 0.0
	for i := range s.cands {
		c := &s.cands[i]
		c.p = math.Exp((float64(c.logit) - top) / t)
		total += c.p
	}
	at := float64(s.pcg.Uint64()>>11) / (1 << 53) * total
	last := int32(0)
	for _, c := range s.cands {
		if c.p == 0 {
			continue
		}
		if at < c.p {
			return c.id
		}
		at -= c.p
		last = c.id // rounding errors may let the loop end without a choice, so the last candidate is kept
	}
	return last
}
