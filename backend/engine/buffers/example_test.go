package buffers_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/buffers"
)

// Two drafts follow the last token of sequence 0, which has seven tokens already. The
// two drafts are alternatives: both follow row 0, and neither sees the other.
func ExampleRows() {
	rows := &buffers.Rows{Bases: map[int]int{0: 7}}
	rows.Add(0, buffers.Root, 7, 7)
	rows.Add(0, 0, 8, 8)
	rows.Add(0, 0, 8, 9)
	fmt.Println(rows.Parents, rows.Positions, rows.Slots)
	// Output: [-1 0 0] [7 8 8] [7 8 9]
}
