package buffers

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sdnpu/sdnpu/backend/engine/recall"
	"github.com/sdnpu/sdnpu/backend/quant"
)

const (
	// mostQueries is the largest number of rows whose queries choose the pages of a sequence.
	mostQueries = 16
	// recallWorkers is the largest number of goroutines that weigh pages.
	recallWorkers = 4
	// MissedAttention is the estimated part of the attention, averaged over the key heads of a
	// block's layers, from which a block runs again with other pages.
	MissedAttention = 0.02
)

// Recall chooses which pages of long sequences the layers [first, end) read next. The layers'
// graph of the given width has just computed the rows. Recall returns the largest part of the
// attention, over all long sequences, that the rows have missed by the estimate, averaged over
// layers and key heads. Layers with a sliding window need no pages.
func (b *Buffers) Recall(rows *Rows, first, end, width int) (missed float32) {
	for sequence := range rows.Starts {
		missed = max(missed, b.recallFor(rows, sequence, first, end, width))
	}
	return missed
}

// recallFor does the work of Recall for one sequence.
func (b *Buffers) recallFor(rows *Rows, sequence, first, end, width int) float32 {
	chosen := sample(rows, sequence, width)
	heads := b.config.Model.KVHeads
	missed := make([]float32, (end-first)*heads)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(recallWorkers, runtime.GOMAXPROCS(0), len(missed)) {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(missed); i = int(next.Add(1)) - 1 {
				layer, head := first+i/heads, i%heads
				if b.config.Model.WindowOf(layer) > 0 {
					continue
				}
				missed[i] = b.cache.Exchange(sequence, layer, head, func(x *recall.Index) []float32 {
					return b.weigh(x, layer, head, width, chosen)
				})
			}
		})
	}
	work.Wait()
	sum := float32(0)
	for _, m := range missed {
		sum += m
	}
	return sum / float32(len(missed))
}

// weigh adds up the attention that the chosen rows' queries pay to each page.
func (b *Buffers) weigh(x *recall.Index, layer, head, width int, chosen []int) []float32 {
	c := b.config.Model
	t, groups := b.config.Recipe.Activations, c.Heads/c.KVHeads
	size := c.HeadDim * t.Size()
	weights, scratch, query := make([]float32, x.Pages()), make([]float32, x.Pages()), make([]float32, c.HeadDim)
	for g := head * groups; g < (head+1)*groups; g++ {
		for _, row := range chosen {
			at := (g*width + row) * size
			if err := quant.DecodeFloats(query, b.queries[layer].All()[at:at+size], t); err != nil {
				panic(fmt.Sprintf("buffers: decode queries: %v", err)) // activations are floats
			}
			x.Weigh(weights, scratch, query)
		}
	}
	return weights
}

// sample returns at most mostQueries rows of the last slice of a pass that belong to a sequence,
// counted from the slice's first row: the last ones, and some of the others at equal distances.
func sample(rows *Rows, sequence, width int) (chosen []int) {
	var own []int
	slice := rows.Sequences[(len(rows.Sequences)-1)/width*width:]
	for i, s := range slice {
		if s == sequence {
			own = append(own, i)
		}
	}
	if len(own) <= mostQueries {
		return own
	}
	const last = mostQueries / 2
	rest := own[:len(own)-last]
	for i := range mostQueries - last {
		chosen = append(chosen, rest[i*len(rest)/(mostQueries-last)])
	}
	return append(chosen, own[len(own)-last:]...)
}
