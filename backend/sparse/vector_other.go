//go:build !amd64 && !arm64

package sparse

// Processors without assembly run the plain functions.

func scores(dst, q []float32, keys Rows, indices []int32) { plainScores(dst, q, keys, indices) }

func addRows(out, weights []float32, values Rows, indices []int32) {
	plainAddRows(out, weights, values, indices)
}

func exponentials(w []float32, top, scale float32) float32 { return plainExponentials(w, top, scale) }

func largest(w []float32) float32 { return plainLargest(w) }

func count(scores []uint8, least uint8) int { return plainCount(scores, least) }

func mark(words []uint64, scores []uint8, least uint8) { plainMark(words, scores, least) }
