package engine

import (
	"fmt"
	"slices"
)

// passCost is the fixed share of a pass, in rows: a pass of w rows takes
// w+passCost. It stands for reading the weights, which narrow passes do as
// often as wide ones. 11 follows from the only published pair of one model on
// an NPU: 51 ms for 1 row, 182 ms for 32 (Qwen2.5-1.5B, sd.npu). It decides
// how the end of a prompt is cut, never what is computed.
const passCost = 11

// planChunks says how many rows the next pass takes when n are left: element n
// for n up to the widest width; beyond that it is the widest.
func planChunks(o Options) []int {
	rows, widest := o.Rows, o.Rows[0]
	chunks, costs := make([]int, widest+1), make([]int, widest+1)
	if o.Plan != "" { // how a chunk is cut is for each block to say
		for n := range chunks {
			chunks[n] = n
		}
		return chunks
	}
	for n := 1; n <= widest; n++ {
		for i, w := range rows { // the widest first: it wins ties
			k := min(w, n)
			if cost := w + passCost + costs[n-k]; i == 0 || cost < costs[n] {
				chunks[n], costs[n] = k, cost
			}
		}
	}
	return chunks
}

// chunk is how many of n waiting rows the next pass takes.
func (e *Engine) chunk(n int) int { return e.chunks[min(n, e.options.Rows[0])] }

// widthFor is the narrowest width that holds n rows.
func (e *Engine) widthFor(n int) int {
	for _, w := range slices.Backward(e.options.Rows) {
		if w >= n {
			return w
		}
	}
	panic(fmt.Sprintf("engine: no graph has %d rows", n))
}
