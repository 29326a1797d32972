package engine

import (
	"slices"
	"time"
)

// addDrafts fills a pass with drafts of the jobs whose last token is in it. Its
// width is the one that gives the most tokens per time: each of these jobs says
// one token anyway, and drafts as many more as their scores add up to. Rows that
// the width has anyway are always filled, the likeliest drafts first, whoever's
// they are. Where the width is to be exact there is one.
func (e *Engine) addDrafts(shares []share) {
	rows, sure := 0, 0
	for _, s := range shares {
		if rows += s.n; s.last() {
			sure++
		}
	}
	merged := newMerge(shares)
	if e.options.Exact {
		merged.fill(e.options.draftRows() - rows)
		merged.keep()
		return
	}
	width := e.widthFor(rows)
	best := 0.0
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
// before there was one, as foretold. While few were measured the lower counts:
// the first pass of a width may have waited for its pages or for other work, and a
// width that is thought too dear is not measured again.
func (e *Engine) cost(width int) time.Duration {
	if e.options.Cost != nil {
		return e.options.Cost(width)
	}
	t, measured := e.took[width]
	foretold, narrower := e.foretell(width)
	switch {
	case !measured:
		return foretold
	case narrower && e.doubts[width] > 0:
		return min(t, foretold)
	}
	return t
}

// foretell is what passCost says of a width beside the narrowest other one that
// was measured, and whether that is narrower.
func (e *Engine) foretell(width int) (t time.Duration, narrower bool) {
	for _, w := range slices.Backward(e.options.Rows) {
		if t, ok := e.took[w]; ok && w != width {
			return t * time.Duration(width+passCost) / time.Duration(w+passCost), w < width
		}
	}
	return time.Duration(width+passCost) * time.Millisecond, false
}

const (
	// learn is the weight of what has just been measured.
	learn = 0.2
	// doubtful is how many passes of a width behind its first are measured before
	// what they took is believed: the shortest of them until then.
	doubtful = 2
)

// timed notes how long a pass took.
func (e *Engine) timed(width int, t time.Duration) {
	old, known := e.took[width]
	switch {
	case !known:
		e.doubts[width] = doubtful
	case e.doubts[width] > 0:
		e.doubts[width]--
		t = min(t, old)
	default:
		t = old + time.Duration(learn*float64(t-old))
	}
	e.took[width] = t
}
