package draft

import (
	"slices"

	"github.com/sdnpu/sdnpu/spec"
)

const (
	// reuseLife is for how many steps a segment is drafted again, reuseSegments
	// how many are kept.
	reuseLife, reuseSegments = 8, 16
	// reuseAlign is how many of the newest tokens are looked for in a segment.
	reuseAlign = 4
	reuseFade  = 0.8
)

// reuse is draft extension as it was published (sd.npu section 4.4): of each
// rejected draft the longest run in which the model agreed, token by token,
// behind the wrong one. Texts often come to it a little later.
type reuse struct {
	segments []segment // the newest last
	// run counts, for each row of the tree that was verified, the rows up to it
	// that the model agreed with; longest is the longest such run.
	run, longest []int32
}

type segment struct {
	tokens    []int32
	age, next int
}

// worth is a segment's score: it fades with age.
func (s *segment) worth() float32 {
	w := float32(1)
	for range s.age - 1 {
		w *= reuseFade
	}
	return w
}

func (r *reuse) reset() { r.segments, r.run, r.longest = r.segments[:0], r.run[:0], r.longest[:0] }

// rejected tells that the model says token behind a row that was not accepted.
// Rows are told in their order.
func (r *reuse) rejected(t *spec.Tree, row, token int32) {
	child := t.Child(row, token)
	if child == spec.None {
		return
	}
	for len(r.run) <= int(child) {
		r.run = append(r.run, 0)
	}
	r.run[child] = r.run[row] + 1
	if int(r.run[child]) <= len(r.longest) {
		return
	}
	r.longest = r.longest[:0]
	for at := child; len(r.longest) < int(r.run[child]); at = t.Parents[at] {
		r.longest = append(r.longest, t.Tokens[at])
	}
	slices.Reverse(r.longest)
}

// step makes a segment of what was told and ages the others; those that the text
// has come to go on behind its end.
func (r *reuse) step(text []int32) {
	if len(r.longest) > 0 {
		if len(r.segments) == reuseSegments {
			r.segments = slices.Delete(r.segments, 0, 1)
		}
		r.segments = append(r.segments, segment{tokens: slices.Clone(r.longest)})
	}
	r.run, r.longest = r.run[:0], r.longest[:0]
	r.segments = slices.DeleteFunc(r.segments, func(s segment) bool {
		return s.age == reuseLife || s.align(text) == len(s.tokens)
	})
	for i := range r.segments {
		s := &r.segments[i]
		s.age++
		s.next = s.align(text)
	}
}

// align is where a segment goes on: behind the latest place of the longest end of
// the text, of four tokens at most, or where it was.
func (s *segment) align(text []int32) int {
	for n := min(reuseAlign, len(text), len(s.tokens)); n > 0; n-- {
		end := text[len(text)-n:]
		for at := len(s.tokens) - n; at >= 0; at-- {
			if slices.Equal(s.tokens[at:at+n], end) {
				return at + n
			}
		}
	}
	return s.next
}
