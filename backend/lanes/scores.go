package lanes

import (
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/sparse"
)

// launchHeads lists the numbers of key heads whose scores one launch estimates.
var launchHeads = []int{1, 2, 4}

// bucketScales lists the scales of queries and keys of each bucket, as multiples of the mean scales:
// all pairs of 1/2, 1 and 2, as published.
var bucketScales = func() (list [9][2]float32) {
	steps := []float32{0.5, 1, 2}
	for i := range list {
		list[i] = [2]float32{steps[i/3], steps[i%3]}
	}
	return list
}()

// mean is the index of the bucket whose scales are the mean scales.
const mean = 4

// scoreEncodings returns the encodings of queries, keys and scores in a bucket. Scores are in units
// of the product of both scales, so that the integers are the same function in every bucket.
func scoreEncodings(dim, bucket int) (q, k, scores backend.Encoding) {
	s := bucketScales[bucket]
	return backend.Encoding{Scale: s[0], Offset: -sparse.Zero}, backend.Encoding{Scale: s[1], Offset: -sparse.Zero},
		backend.Encoding{Scale: s[0] * s[1] * sparse.Unit(dim), Offset: -sparse.Zero}
}

// scoreName returns the name of the graph that estimates the scores of some key heads. The emulator
// reads the sizes from the name to charge the graph's time.
func (a *attention) scoreName(heads, bucket int) string {
	return fmt.Sprintf("scores_h%d_r%d_t%d_d%d_b%d", heads, a.Groups*a.Rows, a.slots(), a.Dim, bucket)
}

// buckets lists the indices of the buckets for which a node has graphs.
func (a *attention) buckets() (list []int) {
	if a.Buckets == 1 {
		return []int{mean}
	}
	for b := range bucketScales {
		list = append(list, b)
	}
	return list
}

// launches lists the numbers of key heads for which a node has graphs.
func (a *attention) launches() (list []int) {
	for _, n := range launchHeads {
		if n <= a.KeyHeads {
			list = append(list, n)
		}
	}
	return list
}

// The names of the ports of graphs that estimate scores.
const (
	portQueries = "queries"
	portKeys    = "keys"
	portScores  = "scores"
)

// scoreGraphs returns the graphs that estimate the scores of a node, without those whose names are
// in `known`. Each graph is one product of integers of 8 bits, without mask and softmax.
func (a *attention) scoreGraphs(known map[string]bool) (graphs []*backend.Graph, err error) {
	for _, heads := range a.launches() {
		for _, bucket := range a.buckets() {
			name := a.scoreName(heads, bucket)
			if known[name] {
				continue
			}
			known[name] = true
			q, k, s := scoreEncodings(a.Dim, bucket)
			b := backend.NewBuilder(name)
			queries := b.EncodedInput(portQueries, backend.Ufixed8, q, 1, heads, a.Groups*a.Rows, a.Dim)
			keys := b.EncodedInput(portKeys, backend.Ufixed8, k, 1, heads, a.slots(), a.Dim)
			b.Output(b.EncodedMatMul(portScores, queries, keys, s))
			g, err := b.Graph()
			if err != nil {
				return nil, fmt.Errorf("lanes: %w", err)
			}
			graphs = append(graphs, g)
		}
	}
	return graphs, nil
}

// largest returns the largest magnitude of some numbers.
func largest(values []float32) (most float32) {
	for _, v := range values {
		most = max(most, v, -v)
	}
	return most
}

// nearestBucket returns the bucket whose scales are nearest to those of queries and keys, in
// multiples of their means. With the published metric, the distance of two scales is the square of
// their difference; with the metric of logarithms, it is the square of the difference of their
// logarithms. Equal distances give the larger scale.
func nearestBucket(q, k float32, logarithms bool) (best int) {
	least := math.Inf(1)
	for i, b := range bucketScales {
		dq, dk := float64(q-b[0]), float64(k-b[1])
		if logarithms {
			dq, dk = math.Log(float64(q/b[0])), math.Log(float64(k/b[1]))
		}
		if d := dq*dq + dk*dk; d <= least {
			best, least = i, d
		}
	}
	return best
}

// ScoreGraphs returns the graphs that estimate the scores of a model with graphs of some rows and past
// slots. All layers use the same graphs. buckets is 1 or 9.
func ScoreGraphs(c model.Config, rows, past, buckets int) ([]*backend.Graph, error) {
	a := &attention{KeyHeads: c.KVHeads, Groups: c.Heads / c.KVHeads, Rows: rows, Past: past, Dim: c.HeadDim, Buckets: buckets}
	return a.scoreGraphs(make(map[string]bool))
}
