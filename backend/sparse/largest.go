package sparse

// KthLargest returns the kth largest of the values, for k from 1 to their number, by repeated partition.
// It leaves the values as they are.
func KthLargest(values []float32, k int) float32 {
	v := append([]float32(nil), values...)
	for low, high := 0, len(v)-1; low < high; {
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
		case k-1 <= j:
			high = j
		case k-1 >= i:
			low = i
		default:
			return v[k-1]
		}
	}
	return v[k-1]
}
