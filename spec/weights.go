package spec

import "math"

const (
	// levels is how many context lengths have weights of their own; longer ones
	// share the last's.
	levels = 9
	// maxSources bounds the sources of a [Drafter].
	maxSources = 4
)

func level(k int) int { return min(k, levels-1) }

// Weights are what a [Drafter] makes of its sources. A drafter may go on with
// those that another one with the same sources has learned.
type Weights struct {
	// Sources multiply the counts of each source, by context length: a database
	// may know after eight tokens what it does not after two.
	Sources [maxSources][levels]float32
	// Escapes are how much contexts of a length distrust themselves: the weight
	// of every different successor against one more token. Witten and Bell's
	// method C is 1; recorded texts do best with about 3.
	Escapes [levels]float32
}

// said is what the contexts of one length say of a token.
type said struct {
	counts           [maxSources]float32 // of the token, weighted
	hits             float32             // their sum
	total, distinct  float32             // of all tokens, weighted
	probability, all float32             // what it adds to the blend; total and escape
}

// unseen is the probability of a token that no source has ever seen.
const unseen = 1e-4

// Learn tells the drafter that token came after text, before any source has
// heard of it: weights move, by steps of rate, to where the blend had expected
// it more.
//
// It climbs the gradient of the logarithm of the blended probability p, in the
// logarithms of the weights. Let contexts of k tokens add P to p, all shorter
// ones Q, and let n and N be a source's weighted counts of the token and of all
// tokens there, T the sum of N, and E the weighted number of successors. Then
//
//	p·∂ln p/∂ln w = P·n/Σn − (P+Q)·N/(T+E)
//	p·∂ln p/∂ln e = Q − (P+Q)·E/(T+E)
func (d *Drafter) Learn(text []int32, token int32, rate float32) {
	longest := d.look(d.end(text))
	mass, p := float32(1), float32(0)
	for k := longest - 1; k >= 0; k-- {
		l := &d.said[k]
		if *l = d.hear(k, token); l.all > 0 {
			l.probability = mass * l.hits / l.all
			mass *= (l.all - l.total) / l.all
			p += l.probability
		}
	}
	shorter := mass * unseen
	p += shorter
	for k := range longest {
		if l := &d.said[k]; l.all > 0 {
			d.climb(k, l, l.probability/p, shorter/p, rate)
			shorter += l.probability
		}
	}
}

// hear asks the sources, which have looked at the context, of its last k tokens.
func (d *Drafter) hear(k int, token int32) (l said) {
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

// climb moves the weights of contexts of k tokens, which gave the share own of
// the blend and shorter ones the share shorter.
func (d *Drafter) climb(k int, l *said, own, shorter, rate float32) {
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

// bound keeps a weight where a source that was useless for long is heard again
// soon.
func bound(w float32) float32 { return min(max(w, 1.0/64), 64) }

// Change multiplies the weights by what they grew by elsewhere.
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

func grow(w, before, after float32) float32 {
	if before == 0 { // no such source
		return w
	}
	return bound(w * (after / before))
}
