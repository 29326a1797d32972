package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// stream is the second half of the generator's seed.
const stream = 0x73646e7075 // "sdnpu"

// Sampler draws the tokens of one output. It belongs to one goroutine.
type Sampler struct {
	options Options
	history history
	pcg     *rand.PCG
	cands   []candidate // scratch memory
}

// candidate is a token that the filters have kept. p is valid after softmax.
type candidate struct {
	id    int32
	logit float32
	p     float64
	far   float64 // distance of the surprise from the entropy, for typical-p
}

// New returns a Sampler. The error for invalid options wraps [ErrOptions].
func New(o Options) (*Sampler, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	s := &Sampler{options: o, pcg: rand.NewPCG(o.Seed, stream)}
	s.history.n = o.RepeatLastN
	return s, nil
}

// Accept makes token recent for the penalties. The caller passes the prompt and
// each token that it keeps; Sample does not call Accept. Negative ids are
// ignored.
func (s *Sampler) Accept(token int32) {
	if token >= 0 && s.options.penalties() {
		s.history.add(token)
	}
}

// Sample chooses a token. It does not change logits. A nil mask allows all
// tokens.
func (s *Sampler) Sample(logits []float32, mask Mask) (int32, error) {
	if len(logits) == 0 {
		return 0, fmt.Errorf("sampler: %w: the row is empty", ErrLogits)
	}
	if err := s.gather(logits, mask, s.options.needed(len(logits))); err != nil {
		return 0, err
	}
	return s.choose(), nil
}

// choose chooses one of the candidates.
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

// gather collects the k best allowed tokens after penalties. They are sorted if
// k is less than the row, else in the order of ids.
func (s *Sampler) gather(logits []float32, mask Mask, k int) error {
	s.cands = s.cands[:0]
	seen := s.history.counts
	for i, logit := range logits {
		id := int32(i)
		if len(seen) > 0 && seen[0].id == id {
			logit = s.options.penalise(logit, seen[0].times)
			seen = seen[1:]
		}
		full := len(s.cands) == k
		// Ids ascend, so an equal logit loses against an earlier one. NaN
		// passes this comparison and is rejected below.
		if full && logit <= s.cands[0].logit {
			continue
		}
		if logit != logit {
			return fmt.Errorf("sampler: %w: token %d has NaN", ErrLogits, id)
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

// keep adds a candidate. If there are k already, it replaces the worst one,
// which is the first.
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

// best returns the best candidate, the lowest id among equals.
func (s *Sampler) best() candidate {
	best := s.cands[0]
	for _, c := range s.cands[1:] {
		if better(&c, &best) {
			best = c
		}
	}
	return best
}

// draw takes one number from the generator and returns the token that it
// selects.
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
		last = c.id // rounding may pass the end
	}
	return last
}
