package spec

import "github.com/sdnpu/sdnpu/spec/ngram"

// Source knows which tokens followed contexts. Its methods take and return plain
// numbers, so other packages can implement it without importing this one.
type Source interface {
	// Levels writes what followed the contexts of 0, 1, 2, … tokens at the end of a text. It
	// returns the number of contexts that the source knows. It knows no context that is longer than
	// these. context holds the last tokens, the newest first. For each context, total counts the
	// tokens that followed, distinct counts the different ones, and first is the first entry of
	// their list. All three slices have room for len(context)+1 values.
	Levels(context []int32, total, distinct []float32, first []int32) int
	// Successor returns an entry of such a list and the place of the next entry,
	// [End] after the last. Counts never grow along a list.
	Successor(at int32) (token int32, count float32, next int32)
}

// End is the place after the last successor.
const End = ngram.End

// Levels implements [Source].
func (x *Index) Levels(context []int32, total, distinct []float32, first []int32) int {
	h := ngram.Empty
	for k := 0; ; k++ {
		s := x.find(h.Check())
		if s.check == 0 {
			return k
		}
		if s.total() == 1 {
			return x.follow(s.first, k, context, total, distinct, first)
		}
		total[k], distinct[k], first[k] = float32(s.total()), float32(s.distinct()), s.first
		if k == x.depth || k == len(context) || context[k] < 0 {
			return k + 1
		}
		h = h.Extend(context[k])
	}
}

// follow writes the levels of a context of k tokens that occurred once, and of all
// longer ones that agree with the text before that place.
func (x *Index) follow(place int32, k int, context []int32, total, distinct []float32, first []int32) int {
	for {
		total[k], distinct[k], first[k] = 1, 1, ^place
		before := int(place) - k - 1
		if k == x.depth || k == len(context) || before < 0 || context[k] < 0 || x.text[before] != context[k] {
			return k + 1
		}
		k++
	}
}

// Successor implements [Source]. A negative place is the complement of an index of
// the text.
func (x *Index) Successor(at int32) (token int32, count float32, next int32) {
	if at < 0 {
		return x.text[^at], 1, End
	}
	e := &x.edges[at]
	return e.token, float32(e.count), e.next
}
