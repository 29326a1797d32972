//go:build !amd64

package cpu

// dotWide is nil: this processor's vector unit is not used.
var dotWide func(sums *wideSums, x, w *float32, ldw, k int)
