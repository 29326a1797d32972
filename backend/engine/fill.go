package engine

import (
	"slices"

	"github.com/sdnpu/sdnpu/backend"
)

// addDrafts adds drafts to the pass for each work item whose last token is among the
// rows. addDrafts chooses the graph width with the most expected tokens per time: a
// work item is expected to yield one token plus the sum of its drafts' scores, and a
// draft's score is the probability that it is accepted. addDrafts then fills all free
// rows of that width with the drafts of the highest scores among all items. If each
// token must be computed on one width, addDrafts cannot choose the width. With
// automatic drafts, the guard limits what a wider pass may cost.
func (e *Engine) addDrafts(list []taskRows) {
	rows, sure, shape := 0, 0, e.shape()
	for _, s := range list {
		if rows += s.n; s.last() {
			sure++
		}
	}
	merged := newMerge(list)
	if shape.Exact {
		merged.fill(shape.DraftRows() - rows)
		merged.keep()
		return
	}
	plain, rooms := shape.WidthFor(rows), e.rooms(list)
	width, best := plain, 0.0
	for _, w := range slices.Backward(shape.Rows) {
		// drafts never make a pass so wide that it must be computed in two slices of
		// rows
		if w < rows || w > shape.PartRows() {
			continue
		}
		loss := 0.0
		if w != plain {
			loss = (e.policy.PassTime(w) - e.policy.PassTime(plain)).Seconds()
		}
		merged.fillFrom(w-rows, func(i int) bool { return rooms[i] >= loss })
		tooSlow := slices.Contains(merged.pays, false) && e.policy.PassTime(w) > e.answerBound()
		if w != plain && (!merged.paid || tooSlow) {
			continue
		}
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
	// pays is set for each work item that can afford the loss of the pass, and paid if
	// drafts of such a work item were taken.
	pays []bool
	paid bool
}

func newMerge(rows []taskRows) *merge {
	return &merge{rows: rows, taken: make([]int, len(rows)), pays: make([]bool, len(rows))}
}

// fillFrom drops all taken drafts and takes n again: first drafts of the work items that pay
// for the width of the pass. After these drafts, drafts of the other work items fill the rows
// that are left, because filling these rows costs no further time.
func (m *merge) fillFrom(n int, pays func(i int) bool) {
	m.n, m.expected = 0, 0
	clear(m.taken)
	for i := range m.rows {
		m.pays[i] = pays(i)
	}
	m.fillOf(n, func(i int) bool { return m.pays[i] })
	m.paid = m.n > 0
	m.fillOf(n, func(i int) bool { return !m.pays[i] })
}

// fill takes drafts from the work items until n are taken.
func (m *merge) fill(n int) { m.fillOf(n, func(int) bool { return true }) }

// fillOf takes drafts from some of the work items until n are taken from all.
func (m *merge) fillOf(n int, of func(i int) bool) {
	for ; m.n < n; m.n++ {
		best, score := -1, float32(0)
		for i, s := range m.rows {
			t := s.item.drafts
			if of(i) && s.last() && t != nil && m.taken[i] < t.Len() && (best < 0 || t.Scores[m.taken[i]] > score) {
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

// keep sets the number of drafts in the rows of each item to the number that was taken,
// and which items pay for the width.
func (m *merge) keep() {
	for i := range m.rows {
		m.rows[i].drafts, m.rows[i].guest = m.taken[i], !m.pays[i]
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
