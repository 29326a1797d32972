package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/queue"
)

// share.go divides the device between requests that answer and requests whose prompts
// are computed. Prompt tokens fill the rows that answers leave free, because a graph's
// time hardly depends on how many of its rows are used.

// slowdown bounds the mean time of passes with answers while prompts wait: a multiple of
// the time of a pass of one row.
const slowdown = 2

// share decides how the next pass is divided among the waiting work items. If only
// answers or only prompts wait, the pass takes the rows that cost least. If answers and
// prompts wait, answers get their rows first. The remaining rows are for prompts: share
// chooses the width that computes prompts fastest, among those with which answers keep to the
// bound slowdown. The caller holds the device lock.
func (e *Engine) share(items []*queue.Item) queue.Ration {
	s, waiting, answers := e.shape(), 0, 0
	for _, w := range items {
		if waiting += len(w.Tokens); w.Answers() {
			answers++
		}
	}
	all := queue.Ration{Rows: s.ChunkRows(waiting)}
	if answers == 0 || answers == len(items) || answers >= s.Rows[0] || s.Planned() && e.switcher.Active() != nil {
		return all // a plan run computes the chunks of its plan
	}
	if e.answersFirst() {
		return queue.Ration{Rows: answers, AnswersOnly: true}
	}
	width := e.sharedWidth(answers)
	rows := max(len(items), width-e.worthyDrafts(items, width))
	return queue.Ration{Rows: min(rows, waiting, s.Rows[0])}
}

// sharedWidth returns the width of passes that compute tokens of prompts in the rows that
// answers leave free. A pass that takes longer than the bound on answers must be followed
// by passes without prompts. sharedWidth chooses the width with the most prompt tokens per
// time, including the time of these other passes. A width that exceeds the bound must be
// faster by half, because answers then come unevenly.
func (e *Engine) sharedWidth(answers int) (width int) {
	s, best := e.shape(), 0.0
	bound, plain := e.answerBound().Seconds(), e.passSeconds(answers)
	for _, w := range s.Rows {
		if w <= answers {
			continue
		}
		took := e.policy.PassTime(w).Seconds()
		if late := took - bound; late > 0 {
			took = 1.5 * (took + late*plain/max(bound-plain, bound/8))
		}
		if rate := float64(w-answers) / took; rate > best {
			width, best = w, rate
		}
	}
	return width
}

// answerBound returns the mean time that a pass with answers may take while prompts wait.
func (e *Engine) answerBound() time.Duration {
	return slowdown * e.policy.PassTime(e.shape().WidthFor(1))
}

// worthyDrafts returns the number of rows of a shared pass that are worth more for drafts
// than for the tokens of prompts. An accepted draft saves a request its part of a pass. A
// prompt token saves its part of the widest pass. Drafts get at most half of the rows.
func (e *Engine) worthyDrafts(items []*queue.Item, width int) (n int) {
	answers := 0
	for _, w := range items {
		if w.Answers() {
			answers++
		}
	}
	widest := e.shape().Rows[0]
	prompt := e.passSeconds(widest) / float64(widest)
	token := e.passSeconds(answers) / float64(answers)
	for _, w := range items {
		if w.Drafts == nil || !w.Answers() {
			continue
		}
		for _, score := range w.Drafts.Scores {
			if e.trust.Factor()*float64(score)*token > prompt {
				n++
			}
		}
	}
	return min(n, (width-answers)/2)
}

// answersFirst reports whether prompts must wait for a pass, because earlier passes
// held answers up for longer than the bound allows. Up to a quarter of the bound is
// forgiven: otherwise a whole pass without prompts would follow a pass that is late by
// little.
func (e *Engine) answersFirst() bool { return e.overdue > e.answerBound()/4 }

// countShared adds up the time by which passes held answers up for longer than their
// bound. A pass without rows for waiting answers holds them up for its whole time.
func (e *Engine) countShared(rows []queue.Rows) {
	answers, tokens := 0, 0
	e.drawing = 0
	for _, s := range rows {
		tokens += s.N + s.Drafts
		if s.Item.Answers() {
			answers++
		}
		if s.Last() {
			e.drawing++
		}
	}
	_, waiting, _ := e.queue.Counts()
	if answers+waiting == 0 {
		e.overdue = 0
		return
	}
	e.overdue += e.policy.PassTime(e.shape().WidthFor(tokens))
	if answers > 0 {
		e.overdue = max(0, e.overdue-e.answerBound())
	}
}
