package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend/engine/workload"
)

// planChunks returns a table: for each number of prompt tokens that are left, the rows
// of the next pass. The table ends at the widest graph width. If more tokens are left,
// the next pass has the widest width.
func planChunks(o *resolved) []int {
	rows, widest := o.Rows, o.Rows[0]
	chunks, costs := make([]int, widest+1), make([]int, widest+1)
	if o.Plan != "" { // with a plan, each block splits a chunk for the graph that it has loaded
		for n := range chunks {
			chunks[n] = n
		}
		return chunks
	}
	for n := 1; n <= widest; n++ {
		for i, w := range rows { // try the widest width first, so that it wins if costs are equal
			k := min(w, n)
			if cost := w + workload.PassCost + costs[n-k]; i == 0 || cost < costs[n] {
				chunks[n], costs[n] = k, cost
			}
		}
	}
	return chunks
}

// chunkRows returns how many of n waiting prompt tokens the next pass takes.
func (e *Engine) chunkRows(n int) int { return e.chunkOf[min(n, e.options.Rows[0])] }

// widthFor returns the narrowest graph width that holds n rows.
func (e *Engine) widthFor(n int) int {
	for _, w := range slices.Backward(e.options.Rows) {
		if w >= n {
			return w
		}
	}
	panic(fmt.Sprintf("engine: no graph has %d rows", n))
}
