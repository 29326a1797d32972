package engine

import (
	"slices"
	"time"
)

// addDrafts fills a pass with drafts of the jobs whose last token is in it. Its
// width is the one that gives the most tokens per time: each of these jobs says
// one token anyway, and drafts as many more as their scores add up to. Rows that
// the width has anyway are always filled, the likeliest drafts first, whoever's
// they are.
func (e *Engine) addDrafts(shares []share) {
	rows, sure := 0, 0
	for _, s := range shares {
		if rows += s.n; s.last() {
			sure++
		}
	}
	width := e.widthFor(rows)
	best := 0.0
	merged := newMerge(shares)
	for _, w := range slices.Backward(e.options.Rows) {
		if w < rows || w > e.options.partRows() { // drafts are not worth a second part
			continue
		}
		merged.fill(w - rows)
		rate := (float64(sure) + e.trust.Factor()*merged.expected) / e.cost(w).Seconds()
		if w == width || rate > best {
			best, width = rate, w
			merged.keep()
		}
	}
}

// merge takes drafts from several jobs by falling score.
type merge struct {
	shares   []share
	taken    []int // drafts of each share
	n        int   // of all
	expected float64
}

func newMerge(shares []share) *merge { return &merge{shares: shares, taken: make([]int, len(shares))} }

// fill takes drafts until there are n.
func (m *merge) fill(n int) {
	for ; m.n < n; m.n++ {
		best, score := -1, float32(0)
		for i, s := range m.shares {
			t := s.job.drafts
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

// keep makes what was taken the shares' drafts.
func (m *merge) keep() {
	for i := range m.shares {
		m.shares[i].drafts = m.taken[i]
	}
}

// cost is how long a pass of a width takes: as the options say, as measured or,
// before there was one, what passCost says beside the narrowest width that was.
func (e *Engine) cost(width int) time.Duration {
	if e.options.Cost != nil {
		return e.options.Cost(width)
	}
	if t, ok := e.took[width]; ok {
		return t
	}
	for _, w := range slices.Backward(e.options.Rows) {
		if t, ok := e.took[w]; ok {
			return t * time.Duration(width+passCost) / time.Duration(w+passCost)
		}
	}
	return time.Duration(width+passCost) * time.Millisecond
}

// learn is the weight of what has just been measured.
const learn = 0.2

// timed notes how long a pass took.
func (e *Engine) timed(width int, t time.Duration) {
	if old, ok := e.took[width]; ok {
		t = old + time.Duration(learn*float64(t-old))
	}
	e.took[width] = t
}
