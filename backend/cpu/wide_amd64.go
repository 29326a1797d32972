package cpu

import "golang.org/x/sys/cpu"

// dotWide sums products of wideRows packed rows, x (element, row), with
// wideColumns rows of w, at distance ldw, over k > 0 elements. It is nil if the
// processor or the system does not support AVX.
var dotWide = func() func(sums *wideSums, x, w *float32, ldw, k int) {
	if !cpu.X86.HasAVX {
		return nil
	}
	return dotAVX
}()

// dotAVX implements [dotWide]. It does not fuse products with sums, so every lane
// rounds as the compiler's code does.
//
//go:noescape
func dotAVX(sums *wideSums, x, w *float32, ldw, k int)
