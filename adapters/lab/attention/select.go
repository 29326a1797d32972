package attention

import "github.com/sdnpu/sdnpu/backend/sparse"

// selectFloat is [sparse.Select] for scores in float32.
func selectFloat(dst []int32, scores []float32, rule sparse.Rule, ratio float64) []int32 {
	n := len(scores)
	keep := rule.Keep(n, ratio)
	threshold, above := sparse.KthLargest(scores, keep), 0
	equal := 0
	for _, v := range scores {
		if v > threshold {
			above++
		} else if v == threshold {
			equal++
		}
	}
	skip := equal - (keep - above)
	for j, v := range scores {
		taken := v > threshold
		if v == threshold {
			taken = skip <= 0
			skip--
		}
		if taken || j < rule.Sinks || j == n-1 {
			dst = append(dst, int32(j))
		}
	}
	return dst
}
