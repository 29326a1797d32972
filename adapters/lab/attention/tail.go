package attention

import (
	"math"

	"github.com/sdnpu/sdnpu/backend/sparse"
)

// tail adds to sparse attention what the keys that are left out contribute by an estimate: their
// weights come from the estimated scores of 8 bits, and all of them have the mean of their values.
type tail struct {
	scores       Scores
	keys, values sparse.Rows
	sum          []float64 // sum is the sum of the first n values
	n            int
}

// add corrects the result of a row with n keys, of which the indices were attended to. The scores in e
// are those of the row.
func (t *tail) add(out []float32, e *estimate, q []float32, n int, indices []int32) {
	dim := len(q)
	if t.sum == nil {
		t.sum = make([]float64, dim)
	}
	for ; t.n < n; t.n++ {
		for i, v := range t.values.F32[t.n*dim:][:dim] {
			t.sum[i] += float64(v)
		}
	}
	queryScale := e.scale
	if queryScale == 0 {
		queryScale = largest(q) / 127
	}
	offset := dot(q, e.centre)
	step := float32(dim) * 127 * span * queryScale * e.unit
	chosen, kept, top := make([]float64, len(indices)), append([]float64(nil), t.sum...), math.Inf(-1)
	for at, j := range indices {
		chosen[at] = dot(q, t.keys.F32[int(j)*dim:][:dim])
		top = max(top, chosen[at])
		for i, v := range t.values.F32[int(j)*dim:][:dim] {
			kept[i] -= float64(v)
		}
	}
	weight, rest, at := 0.0, 0.0, 0
	for _, v := range chosen {
		weight += math.Exp(v - top)
	}
	var table [256]float64
	for b := range table {
		table[b] = math.Exp(float64(step)*float64(b-128) + offset - top)
	}
	for j, b := range e.bytes[:n] {
		if at < len(indices) && indices[at] == int32(j) {
			at++
			continue
		}
		rest += table[b]
	}
	others := float64(n - len(indices))
	if others == 0 {
		return
	}
	for i := range out {
		out[i] = float32((float64(out[i])*weight + rest*kept[i]/others) / (weight + rest))
	}
}

func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
