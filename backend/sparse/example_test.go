package sparse_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/sparse"
)

// Scores of 8 bits choose two of four keys, and the row's own key is always among them.
func Example() {
	kept := sparse.Select(nil, []uint8{10, 200, 30, 20}, sparse.Rule{}, 0.25)
	fmt.Println(kept)

	keys := sparse.Rows{Stride: 2, F32: []float32{0, 0, 1, 0, 0, 0, 1, 0}}
	values := sparse.Rows{Stride: 2, F32: []float32{9, 9, 1, 0, 9, 9, 0, 1}}
	out := make([]float32, 2)
	sparse.Attend(out, []float32{1, 0}, keys, values, kept, 1)
	fmt.Println(out)
	// Output:
	// [1 3]
	// [0.5 0.5]
}
