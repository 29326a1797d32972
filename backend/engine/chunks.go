package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend/engine/workload"
)

// planChunks returns the rows of the next pass by the number of rows that are left, up
// to the widest width. If more are left, the pass has the widest width.
func planChunks(o *resolved) []int {
	rows, widest := o.Rows, o.Rows[0]
	chunks, costs := make([]int, widest+1), make([]int, widest+1)
	if o.Plan != "" { // each block cuts a chunk for its own graph
		for n := range chunks {
			chunks[n] = n
		}
		return chunks
	}
	for n := 1; n <= widest; n++ {
		for i, w := range rows { // the widest first, so that it wins ties
			k := min(w, n)
			if cost := w + workload.PassCost + costs[n-k]; i == 0 || cost < costs[n] {
				chunks[n], costs[n] = k, cost
			}
		}
	}
	return chunks
}

// chunkRows returns how many of n waiting rows the next pass takes.
func (e *Engine) chunkRows(n int) int { return e.chunkOf[min(n, e.options.Rows[0])] }

// widthFor returns the narrowest width that holds n rows.
func (e *Engine) widthFor(n int) int {
	for _, w := range slices.Backward(e.options.Rows) {
		if w >= n {
			return w
		}
	}
	panic(fmt.Sprintf("engine: no graph has %d rows", n))
}
