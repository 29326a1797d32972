package cpu

import "golang.org/x/sys/cpu"

// dotWide sums products of wideRows packed rows, x (element, row), with
// wideColumns rows of w, ldw elements apart, over k elements, k > 0. It is nil
// where the processor or the system lacks AVX.
var dotWide = func() func(sums *wideSums, x, w *float32, ldw, k int) {
	if !cpu.X86.HasAVX {
		return nil
	}
	return dotAVX
}()

// dotAVX is [dotWide] with products and sums apart, not fused: every lane rounds
// as the compiler's code does.
//
//go:noescape
func dotAVX(sums *wideSums, x, w *float32, ldw, k int)
