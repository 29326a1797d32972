package spec

import "math"

const (
	// levels is the number of context lengths with weights of their own. All longer contexts have
	// the last weight.
	levels = 9
	// maxSources bounds the sources of a [Drafter].
	maxSources = 4
)

// level returns the index of the weights for contexts of k tokens.
func level(k int) int { return min(k, levels-1) }

// Weights are the learned parameters of a [Drafter]. A drafter may continue with
// the weights of another one that has the same sources.
type Weights struct {
	// Sources multiply the counts of each source, by context length. For example, a
	// database may be useful after contexts of eight tokens and not after two.
	Sources [maxSources][levels]float32
	// Escapes are the weights of an unseen token by context length: each different
	// successor counts as so much evidence for one. Witten and Bell's method C is 1;
	// recorded texts do best with about 3.
	Escapes [levels]float32
}

// vote holds the contribution of contexts of one length to a token's probability.
type vote struct {
	counts          [maxSources]float32 // of the token, weighted
	hits            float32             // sum of counts
	total, distinct float32             // of all tokens; total is weighted
	all             float32             // total plus escape
	probability     float32             // contribution to the blend
}

// unseen is the probability of a token that no source has seen.
const unseen = 1e-4

// Learn adapts the weights to a token that followed text, so that the blend would
// have given it a larger probability. Call it before the token is added to any
// source. rate is the step size.
//
// Learn climbs the gradient of the logarithm of the blended probability p in the
// logarithms of the weights. Let contexts of k tokens add P to p, and all shorter
// ones Q. For a source let n and N be its weighted counts of the token and of all
// tokens there. Let T be the sum of N over the sources, and E the weighted number of
// successors. Then
//
//	p·∂ln p/∂ln w = P·n/Σn − (P+Q)·N/(T+E)
//	p·∂ln p/∂ln e = Q − (P+Q)·E/(T+E)
func (d *Drafter) Learn(text []int32, token int32, rate float32) {
	longest := d.look(d.end(text))
	mass, p := float32(1), float32(0)
	for k := longest - 1; k >= 0; k-- {
		l := &d.votes[k]
		if *l = d.vote(k, token); l.all > 0 {
			l.probability = mass * l.hits / l.all
			mass *= (l.all - l.total) / l.all
			p += l.probability
		}
	}
	shorter := mass * unseen
	p += shorter
	for k := range longest {
		if l := &d.votes[k]; l.all > 0 {
			d.climb(k, l, l.probability/p, shorter/p, rate)
			shorter += l.probability
		}
	}
}

// vote reads from the sources how often token followed the last k tokens of the
// context that look has set.
func (d *Drafter) vote(k int, token int32) (l vote) {
	for i := range d.sources {
		s := &d.sources[i]
		if k >= s.found || s.total[k] == 0 {
			continue
		}
		w := d.Weights.Sources[i][level(k)]
		l.total += w * s.total[k]
		l.distinct += s.distinct[k]
		for at, n := s.first[k], 0; at != End && n < maxSuccessors; n++ {
			t, count, next := s.Successor(at)
			if t == token {
				l.counts[i] = w * count
				l.hits += l.counts[i]
				break
			}
			at = next
		}
	}
	if l.total > 0 {
		l.all = l.total + d.Weights.Escapes[level(k)]*l.distinct
	}
	return l
}

// climb moves the weights of contexts of k tokens. They contributed the share own of
// the blended probability, and shorter contexts contributed the share shorter.
func (d *Drafter) climb(k int, l *vote, own, shorter, rate float32) {
	for i := range d.sources {
		s := &d.sources[i]
		if k >= s.found || s.total[k] == 0 {
			continue
		}
		w := &d.Weights.Sources[i][level(k)]
		slope := -(own + shorter) * *w * s.total[k] / l.all
		if l.hits > 0 {
			slope += own * l.counts[i] / l.hits
		}
		*w = scale(*w, slope*rate)
	}
	e := &d.Weights.Escapes[level(k)]
	*e = scale(*e, rate*(shorter-(own+shorter)*(l.all-l.total)/l.all))
}

// scale multiplies a weight by e to the power of x.
func scale(w, x float32) float32 { return bound(w * float32(math.Exp(float64(x)))) }

// bound limits a weight, so that a source that was useless for long can recover
// quickly.
func bound(w float32) float32 { return min(max(w, 1.0/64), 64) }

// Change multiplies each weight by the factor by which it grew from before to after.
func (w *Weights) Change(before, after *Weights) {
	for i := range w.Sources {
		for k := range w.Sources[i] {
			w.Sources[i][k] = grow(w.Sources[i][k], before.Sources[i][k], after.Sources[i][k])
		}
	}
	for k := range w.Escapes {
		w.Escapes[k] = grow(w.Escapes[k], before.Escapes[k], after.Escapes[k])
	}
}

// grow multiplies w by after/before. A weight of zero belongs to no source.
func grow(w, before, after float32) float32 {
	if before == 0 {
		return w
	}
	return bound(w * (after / before))
}
