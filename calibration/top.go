package calibration

import "math"

// Row turns a row of logits into what [Table.Observe] takes. It keeps its
// memory between rows.
type Row struct {
	Tokens        []int32
	Probabilities []float32
}

const (
	// topTokens is how many likely tokens of a row are worth keeping.
	topTokens = 8
	// farBelow is the distance to the largest logit from which on a token's share
	// of the probability is left out.
	farBelow = 12
)

// Read fills the row with the likeliest tokens, the likeliest first and the
// lowest id among equals, and their probabilities at temperature 1. A row that
// is no distribution (no finite logit, or a NaN) reads as empty.
func (r *Row) Read(logits []float32) {
	r.Tokens, r.Probabilities = r.Tokens[:0], r.Probabilities[:0]
	least := float32(math.Inf(-1))
	for i, v := range logits {
		if v <= least {
			continue
		}
		if v != v || v > math.MaxFloat32 {
			r.Tokens, r.Probabilities = r.Tokens[:0], r.Probabilities[:0]
			return
		}
		if len(r.Tokens) == topTokens {
			r.Tokens, r.Probabilities = r.Tokens[:topTokens-1], r.Probabilities[:topTokens-1]
		}
		r.insert(int32(i), v)
		if len(r.Tokens) == topTokens {
			least = r.Probabilities[topTokens-1]
		}
	}
	if len(r.Tokens) > 0 {
		r.normalise(logits)
	}
}

// insert keeps the logits, which stand where the probabilities will, in order.
func (r *Row) insert(token int32, v float32) {
	r.Tokens, r.Probabilities = append(r.Tokens, token), append(r.Probabilities, v)
	for i := len(r.Tokens) - 1; i > 0 && r.Probabilities[i-1] < v; i-- {
		r.Tokens[i], r.Probabilities[i] = r.Tokens[i-1], r.Probabilities[i-1]
		r.Tokens[i-1], r.Probabilities[i-1] = token, v
	}
}

// ReadTop fills the row with the first of a row's likeliest tokens, which come
// the likeliest first with their logits; share is the probability of the first.
// A row that is no distribution, which has no such share, reads as empty.
func (r *Row) ReadTop(tokens []int32, logits []float32, share float32) {
	r.Tokens, r.Probabilities = r.Tokens[:0], r.Probabilities[:0]
	if len(tokens) == 0 || !(share > 0 && share < 1.01) || logits[0] > math.MaxFloat32 {
		return
	}
	for i, v := range logits[:min(topTokens, len(logits))] {
		if v < -math.MaxFloat32 {
			break
		}
		r.Tokens = append(r.Tokens, tokens[i])
		r.Probabilities = append(r.Probabilities, min(1, share*float32(math.Exp(float64(v-logits[0])))))
	}
}

func (r *Row) normalise(logits []float32) {
	top := r.Probabilities[0]
	sum := 0.0
	for _, v := range logits {
		if v > top-farBelow {
			sum += math.Exp(float64(v - top))
		}
	}
	for i, v := range r.Probabilities {
		r.Probabilities[i] = float32(math.Exp(float64(v-top)) / sum)
	}
}
