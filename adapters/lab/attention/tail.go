package attention

import "github.com/sdnpu/sdnpu/backend/sparse"

// tail adds to sparse attention what the keys that are left out contribute by an estimate: their
// weights come from the estimated scores of 8 bits, and all of them have the mean of their values.
type tail struct {
	keys, values sparse.Rows
	sum          []float64 // sum is the sum of the first n values
	n            int
}

// attend computes the result of a row with n keys. The scores in e are those of the row.
func (t *tail) attend(out []float32, e *estimate, q []float32, n int, indices []int32) {
	dim := len(q)
	if t.sum == nil {
		t.sum = make([]float64, dim)
	}
	for ; t.n < n; t.n++ {
		for i, v := range t.values.F32[t.n*dim:][:dim] {
			t.sum[i] += float64(v)
		}
	}
	unit := sparse.Unit(dim) * e.scale * e.unit
	sums := make([]float32, dim)
	for i, v := range t.sum {
		sums[i] = float32(v)
	}
	sparse.AttendWithTail(out, q, t.keys, t.values, indices, 1, sparse.Tail{Scores: e.bytes[:n], Unit: unit, Zero: dot(q, e.centre) - sparse.Zero*unit, Values: sums})
}

func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
