package attention

import "github.com/sdnpu/sdnpu/backend/sparse"

// selectFloat is [sparse.Select] for scores in float32.
func selectFloat(dst []int32, scores []float32, rule sparse.Rule, ratio float64) []int32 {
	n := len(scores)
	keep := rule.Keep(n, ratio)
	threshold, above := kth(append([]float32(nil), scores...), keep), 0
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

// kth returns the k-th largest number, and reorders v.
func kth(v []float32, k int) float32 {
	low, high, want := 0, len(v)-1, k-1
	for low < high {
		pivot := v[(low+high)/2]
		i, j := low, high
		for i <= j {
			for v[i] > pivot {
				i++
			}
			for v[j] < pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case want <= j:
			high = j
		case want >= i:
			low = i
		default:
			return v[want]
		}
	}
	return v[want]
}
