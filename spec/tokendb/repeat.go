package tokendb

import "slices"

// A text that is said again and again would push others out of the database:
// when documents are merged, those that a newer one repeats go, and so what is
// still said stays longest.
const (
	shingle = 32 // tokens that are compared at once
	// sampled of the shingles are compared, chosen by what they say: the same ones
	// in every document.
	sampled = 16
	// fewest samples say how much of a document is known; with fewer it has to be
	// repeated as a whole.
	fewest = 8
	// A document goes when known of its samples stand in newer ones.
	known = 0.9
)

const shingleBase = 0x9e3779b97f4a7c15

// unrepeated leaves out the documents that newer ones repeat. They are in the
// order of their commits.
func unrepeated(documents []Document) []Document {
	seen := make(map[uint64]struct{})
	var samples []uint64
	kept := make([]Document, 0, len(documents))
	for _, document := range slices.Backward(documents) {
		samples = sample(samples[:0], document.Tokens)
		old := 0
		for _, s := range samples {
			if _, ok := seen[s]; ok {
				old++
			}
		}
		if float64(old) < known*float64(len(samples)) {
			kept = append(kept, document)
		}
		for _, s := range samples {
			seen[s] = struct{}{}
		}
	}
	slices.Reverse(kept)
	return kept
}

// sample appends hashes of the shingles that stand for a text, or one of all of
// it where they are few.
func sample(to []uint64, tokens []int32) []uint64 {
	begin, rolling, leaving := len(to), uint64(0), uint64(1)
	for range shingle {
		leaving *= shingleBase
	}
	whole := emptyContext
	for i, token := range tokens {
		whole = extend(whole, uint32(token))
		rolling = rolling*shingleBase + uint64(token) + 1
		if i >= shingle {
			rolling -= leaving * (uint64(tokens[i-shingle]) + 1)
		}
		if h := extend(rolling, 0); i >= shingle-1 && h < ^uint64(0)/sampled {
			to = append(to, h)
		}
	}
	if len(to)-begin < fewest {
		return append(to[:begin], whole)
	}
	return to
}
