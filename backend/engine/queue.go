package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/spec"
)

// workItem holds the tokens of one request that wait for a pass. The request's
// goroutine writes a work item. The goroutine that runs a pass reads a work item, from
// the moment when it takes the item out of the queue until it delivers the rows.
type workItem struct {
	sequence int
	tokens   []int32 // tokens holds the tokens that are not computed yet
	// drafts, if set, are the drafts after the last token. If a pass has room for
	// drafts, the pass takes the first rows of drafts.
	drafts *spec.Tree
	// everyRow asks for the largest logits after each token, not only after the last
	// one.
	everyRow bool
	// allLogits asks for all logits of the rows after which a token may be drawn.
	allLogits bool
	// continued is set if further tokens of the prompt follow the item's last token, so
	// that no token is drawn after the last token.
	continued bool
	// answering is set when the prompt is computed: all further tokens of the work item
	// are drawn tokens.
	answering bool
	// outputs is the channel that delivers the request's part of each pass. The channel
	// has room for one output, because no pass takes rows of the work item until the
	// last output is settled.
	outputs chan *passOutput
	// account compares the time that the request takes with the time that it would take
	// without drafts.
	account spec.Account
	// turn determines the item's place in the request queue: items with lower turns
	// come first.
	turn uint64
	// finished is set if no tokens of the work item are left, or if err has ended it.
	finished bool
	err      error
}

// requestQueue holds the work items that wait for a pass, in the order of their turns.
// The holder of the device lock takes rows of several items, which may belong to any
// request.
type requestQueue struct {
	mu    sync.Mutex
	items []*workItem // items is guarded by mu and in ascending order of turns in the queue
	turn  uint64      // turn, guarded by mu, is the last turn in the queue that was assigned
	// coming counts the requests that have no item in the queue but will soon add one:
	// they draw a token and hand out its text. Guarded by mu.
	coming int
	// late counts the coming requests for which a pass has waited in vain, because their
	// clients read slowly or their drafts take long. Guarded by mu.
	late int
	news chan struct{} // news has an element if items or coming has changed since the last receive
}

func newRequestQueue() *requestQueue { return &requestQueue{news: make(chan struct{}, 1)} }

// taskRows describes the rows of a pass that belong to one work item: its next n tokens
// and, after the last token, the first of its drafts.
type taskRows struct {
	item      *workItem
	n, drafts int
	// guest is set if the item does not pay for drafts that make the pass wider, because
	// other items of the pass do.
	guest bool
}

// last reports whether the rows of a pass include the last token of the work item.
func (s taskRows) last() bool { return s.n == len(s.item.tokens) && !s.item.continued }

// scores returns the scores of the drafts that the pass computes. If the pass computes
// no drafts, scores returns the scores of the drafts for the first token: the next
// token shows whether one of them was right.
func (s taskRows) scores() (scores []float32) {
	switch t := s.item.drafts; {
	case t == nil || !s.last():
	case s.drafts > 0:
		scores = slices.Clone(t.Scores[:s.drafts])
	default:
		for i, parent := range t.Parents {
			if parent == spec.None {
				scores = append(scores, t.Scores[i])
			}
		}
	}
	return scores
}

// update calls a function that changes the request queue, and wakes a pass that waits
// for rows.
func (q *requestQueue) update(f func()) {
	q.mu.Lock()
	f()
	q.late = min(q.late, q.coming)
	q.mu.Unlock()
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// A request calls enter before it adds work items to the queue, and leave after its
// last one.
func (q *requestQueue) enter() { q.update(func() { q.coming++ }) }
func (q *requestQueue) leave() { q.update(func() { q.coming-- }) }

// add appends a work item to the request queue. The request of the added item must have
// called enter.
func (q *requestQueue) add(w *workItem) {
	q.update(func() {
		q.coming--
		q.turn++
		w.turn = q.turn
		q.items = append(q.items, w)
	})
}

// reserveTurns reserves n turns after those of all waiting work items, and returns the
// first one.
func (q *requestQueue) reserveTurns(n int) (first uint64) {
	q.update(func() {
		first = q.turn + 1
		q.turn += uint64(n)
	})
	return first
}

// putBack inserts a work item that has tokens left into the request queue, at the turn
// that was reserved for it.
func (q *requestQueue) putBack(w *workItem, turn uint64) {
	q.update(func() {
		w.turn = turn
		at, _ := slices.BinarySearchFunc(q.items, turn, func(w *workItem, turn uint64) int { return cmp.Compare(w.turn, turn) })
		q.items = slices.Insert(q.items, at, w)
	})
}

// withdraw removes a work item from the queue because its request gives up. withdraw
// returns false if a pass has already taken the item.
func (q *requestQueue) withdraw(w *workItem) (removed bool) {
	q.update(func() {
		if removed = q.remove(w); removed {
			q.coming++
		}
	})
	return removed
}

// takeItem removes one work item from the queue for a window, which computes the item's
// tokens chunk by chunk. takeItem returns false if the item is not in the queue.
func (q *requestQueue) takeItem(w *workItem) (taken bool) {
	q.update(func() { taken = q.remove(w) })
	return taken
}

// remove deletes a work item from the queue. The caller of remove holds mu.
func (q *requestQueue) remove(w *workItem) bool {
	n := len(q.items)
	q.items = slices.DeleteFunc(q.items, func(other *workItem) bool { return other == w })
	return len(q.items) < n
}

// waiting returns the number of tokens in all waiting work items. The caller of waiting
// holds mu.
func (q *requestQueue) waiting() (rows int) {
	for _, w := range q.items {
		rows += len(w.tokens)
	}
	return rows
}

// answers returns the number of waiting work items that answer. The caller of answers holds
// mu.
func (q *requestQueue) answers() (n int) {
	for _, w := range q.items {
		if w.answers() {
			n++
		}
	}
	return n
}

// take removes the rows of the next pass from the queue. The function share returns how many of
// the waiting rows the pass takes, and of which work items. First, each of these work items
// gets one row of the pass, so that no request waits for the end of another request's prompt.
// After that, the work items that came first get the rows that are left.
func (q *requestQueue) take(share func(items []*workItem) ration) (rows []taskRows) {
	q.update(func() {
		r := share(q.items)
		left, rest := r.rows, q.items[:0]
		for _, w := range q.items {
			if left == 0 || r.answersOnly && !w.answers() {
				rest = append(rest, w)
				continue
			}
			rows = append(rows, taskRows{item: w, n: 1})
			left--
		}
		q.items = rest
		for i := range rows {
			more := min(left, len(rows[i].item.tokens)-1)
			rows[i].n += more
			left -= more
		}
	})
	return rows
}

// takeExact takes the rows of a pass of exact width from the queue: either rows of the first
// work item's prompt alone, or the drawn tokens of up to `most` items whose prompts are
// computed. If answersFirst is set and drawn tokens wait, the pass takes drawn tokens, and
// prompts wait for a later pass.
func (q *requestQueue) takeExact(chunk func(rows int) int, most int, answersFirst bool) (rows []taskRows) {
	q.update(func() {
		first := q.items[0]
		if i := slices.IndexFunc(q.items, (*workItem).answers); answersFirst && i >= 0 {
			first = q.items[i]
		}
		if !first.answers() {
			rows = append(rows, taskRows{item: first, n: chunk(len(first.tokens))})
			q.items = append(q.items[:0], q.items[1:]...)
			return
		}
		rest := q.items[:0]
		for _, w := range q.items {
			if len(rows) < most && w.answers() {
				rows = append(rows, taskRows{item: w, n: 1})
			} else {
				rest = append(rest, w)
			}
		}
		q.items = rest
	})
	return rows
}

// nextRows takes the rows of the next pass from the queue and adds drafts to them.
func (e *Engine) nextRows() (rows []taskRows) {
	if s := e.shape(); s.Exact {
		rows = e.queue.takeExact(s.ChunkRows, s.ExactRows(), e.answersFirst())
	} else {
		rows = e.queue.take(e.share)
	}
	e.addDrafts(rows)
	e.countShared(rows)
	return rows
}

// patience limits how long a pass waits for further rows: at most 1/patience of its own
// time.
const patience = 8

// waitForMore waits for requests that will soon add rows, if their rows could share the
// pass. waitForMore waits for at most a fraction of the pass's time, and only once for a
// request that comes later than that. Without waitForMore, two requests that have just
// shared a pass would run in separate passes from then on.
func (e *Engine) waitForMore() {
	var timer <-chan time.Time
	s, q := e.shape(), e.queue
	for {
		q.mu.Lock()
		waiting, answers, coming := q.waiting(), q.answers(), q.coming-q.late
		q.mu.Unlock()
		rows := s.ChunkRows(waiting + coming)
		// A full pass has room for answers, because prompts leave rows to them.
		if coming <= 0 || rows <= s.ChunkRows(waiting) && answers >= e.drawing {
			return
		}
		if timer == nil {
			timer = time.After(s.HostTimes.Measured(s.WidthFor(rows)) / patience)
		}
		select {
		case <-q.news:
		case <-timer:
			q.update(func() { q.late = q.coming })
			return
		}
	}
}

// withdraw removes the request's work item from the queue because ctx is done. If a
// pass has already taken the work item, withdraw first settles its rows, so that they
// stay in the KV cache.
func (g *generation) withdraw(ctx context.Context) error {
	ended := fmt.Errorf("engine: %w", ctx.Err())
	if g.engine.queue.withdraw(&g.item) {
		return ended
	}
	for !g.item.finished {
		g.receive(<-g.item.outputs, false)
	}
	return errors.Join(ended, g.item.err)
}
