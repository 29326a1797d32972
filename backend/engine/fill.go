package engine

import (
	"slices"

	"github.com/sdnpu/sdnpu/backend"
)

// addDrafts adds drafts to the pass for each work item whose last token is among the
// rows. addDrafts chooses the graph width with the most expected tokens per time: each
// work item yields one token, and for each draft its score, which is the expected
// number of accepted ones. addDrafts then fills all rows of that width with the
// likeliest number of drafts taken from all items. If each token must be computed on
// one width, addDrafts cannot choose the width. With automatic drafts, the guard limits
// what a wider pass may cost.
func (e *Engine) addDrafts(list []taskRows) {
	rows, sure, shape := 0, 0, e.shape()
	for _, s := range list {
		if rows += s.n; s.last() {
			sure++
		}
	}
	merged := newMerge(list)
	if shape.exact {
		merged.fill(shape.draftRows() - rows)
		merged.keep()
		return
	}
	plain, room := shape.widthFor(rows), e.room(list)
	width, best := plain, 0.0
	for _, w := range slices.Backward(shape.rows) {
		// drafts never make a pass so wide that it must be computed in two slices of
		// rows
		if w < rows || w > shape.partRows() {
			continue
		}
		if w != plain && (e.policy.PassTime(w)-e.policy.PassTime(plain)).Seconds() > room {
			continue
		}
		merged.fill(w - rows)
		rate := (float64(sure) + e.trust.Factor()*merged.expected) / e.policy.PassTime(w).Seconds()
		if w == width || rate > best {
			best, width = rate, w
			merged.keep()
		}
	}
}

// merge collects drafts of several work items, those with the best scores first.
type merge struct {
	rows     []taskRows
	taken    []int // taken holds the number of drafts that were taken from each work item
	n        int   // n is the number of drafts that were taken from all work items
	expected float64
}

func newMerge(rows []taskRows) *merge {
	return &merge{rows: rows, taken: make([]int, len(rows))}
}

// fill takes drafts from the work items until n are taken.
func (m *merge) fill(n int) {
	for ; m.n < n; m.n++ {
		best, score := -1, float32(0)
		for i, s := range m.rows {
			t := s.item.drafts
			if s.last() && t != nil && m.taken[i] < t.Len() && (best < 0 || t.Scores[m.taken[i]] > score) {
				best, score = i, t.Scores[m.taken[i]]
			}
		}
		if best < 0 {
			return
		}
		m.taken[best]++
		m.expected += float64(score)
	}
}

// keep sets the number of drafts in the rows of each item to the number that was taken.
func (m *merge) keep() {
	for i := range m.rows {
		m.rows[i].drafts = m.taken[i]
	}
}

// phaseOf returns the phase of a pass: prefill if it has several tokens of a request,
// else verify if it has drafts, and else decode.
func phaseOf(rows []taskRows) backend.Phase {
	phase := backend.Decode
	for _, s := range rows {
		switch {
		case s.n > 1:
			return backend.Prefill
		case s.drafts > 0:
			phase = backend.Verify
		}
	}
	return phase
}
