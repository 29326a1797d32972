package lanes

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSumsOfValuesFollowTheRows compares the sums of the values that rows see with plain sums.
func TestSumsOfValuesFollowTheRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const heads, dim, keys = 2, 4, 20
	rows := []rowView{{n: 3}, {n: 7}, {n: 7}, {n: 1, keys: []int32{5}}, {n: 2}, {n: 20}}
	h := &headPass{
		attention: &attention{KeyHeads: heads, Dim: dim, Rows: len(rows)},
		pilot:     &pilot{}, view: &view{slots: make([]int32, keys), rows: rows}, sums: make([][]float32, heads),
	}
	h.pilot.floats.values = make([]float32, heads*keys*dim)
	for i := range h.pilot.floats.values {
		h.pilot.floats.values[i] = float32(rng.IntN(100))
	}
	h.addValues()
	for k := range heads {
		for r, row := range rows {
			want := make([]float32, dim)
			for j := 0; j < row.n && row.keys == nil; j++ {
				for i := range dim {
					want[i] += h.pilot.floats.values[(k*keys+j)*dim+i]
				}
			}
			require.Equal(t, want, h.sums[k][r*dim:][:dim])
		}
	}
}
