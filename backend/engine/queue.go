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
// goroutine writes it. The goroutine that runs a pass reads it, from the time it
// takes the item out of the queue until it delivers the rows.
type workItem struct {
	sequence int
	tokens   []int32 // not computed yet; computed tokens are committed
	// drafts may follow the last token. A pass takes the first ones of them, if it
	// has room.
	drafts *spec.Tree
	// everyRow asks for the best logits of all tokens, not only of the last one.
	everyRow bool
	// allLogits asks for all logits of the rows after which a token may be drawn.
	allLogits bool
	// answering is set once the prompt is computed: the tokens are then drawn ones.
	answering bool
	// outputs brings the item's part of each pass. It has room for one output: no pass
	// takes rows of the item before the last output is settled.
	outputs chan *passOutput
	// account compares the time of the request with its time without drafts.
	account spec.Account
	// turn orders items in the queue.
	turn uint64
	// finished reports whether no tokens are left, or err has ended the item.
	finished bool
	err      error
}

// requestQueue holds the items that wait for a pass, the next one first. The
// holder of the device lock takes rows of several items, its own or not.
type requestQueue struct {
	mu    sync.Mutex
	items []*workItem // guarded by mu; ascending by turn
	turn  uint64      // guarded by mu; the last turn that was given out
	// coming counts requests that have no item in the queue but will add one soon:
	// they draw a token and hand out its text. Guarded by mu.
	coming int
	news   chan struct{} // has an element after items or coming changed
}

func newRequestQueue() *requestQueue { return &requestQueue{news: make(chan struct{}, 1)} }

// taskRows are the rows of a pass that belong to one item: the next n of its
// tokens and, after the last token, the first ones of its drafts.
type taskRows struct {
	item      *workItem
	n, drafts int
}

// last reports whether the rows include the item's last token.
func (s taskRows) last() bool { return s.n == len(s.item.tokens) }

// scores returns the scores of the drafts among the rows. If the drafts took no part
// in the pass, it returns those of the first tokens: the next token shows whether one
// of them was right.
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

// update lets f change the queue and wakes a waiting pass.
func (q *requestQueue) update(f func()) {
	q.mu.Lock()
	f()
	q.mu.Unlock()
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// enter and leave frame the time in which a request adds items.
func (q *requestQueue) enter() { q.update(func() { q.coming++ }) }
func (q *requestQueue) leave() { q.update(func() { q.coming-- }) }

// add puts an item of a request that has entered at the end.
func (q *requestQueue) add(w *workItem) {
	q.update(func() {
		q.coming--
		q.turn++
		w.turn = q.turn
		q.items = append(q.items, w)
	})
}

// reserveTurns returns the first of n turns after all items that wait now.
func (q *requestQueue) reserveTurns(n int) (first uint64) {
	q.update(func() {
		first = q.turn + 1
		q.turn += uint64(n)
	})
	return first
}

// putBack inserts an item that has tokens left, at the turn that was reserved for it.
func (q *requestQueue) putBack(w *workItem, turn uint64) {
	q.update(func() {
		w.turn = turn
		at, _ := slices.BinarySearchFunc(q.items, turn, func(w *workItem, turn uint64) int { return cmp.Compare(w.turn, turn) })
		q.items = slices.Insert(q.items, at, w)
	})
}

// withdraw removes an item whose request gives up. It returns false if a pass
// has taken the item.
func (q *requestQueue) withdraw(w *workItem) (removed bool) {
	q.update(func() {
		if removed = q.remove(w); removed {
			q.coming++
		}
	})
	return removed
}

// takeItem removes one item for a window, which computes its tokens chunk by chunk. It
// returns false if the item is not in the queue.
func (q *requestQueue) takeItem(w *workItem) (taken bool) {
	q.update(func() { taken = q.remove(w) })
	return taken
}

// remove deletes an item. The caller holds mu.
func (q *requestQueue) remove(w *workItem) bool {
	n := len(q.items)
	q.items = slices.DeleteFunc(q.items, func(other *workItem) bool { return other == w })
	return len(q.items) < n
}

// waiting counts the tokens of all items. The caller holds mu.
func (q *requestQueue) waiting() (rows int) {
	for _, w := range q.items {
		rows += len(w.tokens)
	}
	return rows
}

// take removes the rows of the next pass; chunk returns how many of the waiting
// rows that pass takes. Each item gets one row in turn, so that no request waits
// for the end of another prompt. The first items get the rows that are left.
func (q *requestQueue) take(chunk func(rows int) int) (rows []taskRows) {
	q.update(func() {
		left := chunk(q.waiting())
		for _, w := range q.items[:min(left, len(q.items))] {
			rows = append(rows, taskRows{item: w, n: 1})
			left--
		}
		q.items = append(q.items[:0], q.items[len(rows):]...)
		for i := range rows {
			more := min(left, len(rows[i].item.tokens)-1)
			rows[i].n += more
			left -= more
		}
	})
	return rows
}

// takeExact takes rows for a pass of an exact width: rows of the first item's prompt alone, or the
// drawn token of each answering item, for at most `most` items.
func (q *requestQueue) takeExact(chunk func(rows int) int, most int) (rows []taskRows) {
	single := func(w *workItem) bool { return w.answering && len(w.tokens) == 1 }
	q.update(func() {
		if first := q.items[0]; !single(first) {
			rows = append(rows, taskRows{item: first, n: chunk(len(first.tokens))})
			q.items = append(q.items[:0], q.items[1:]...)
			return
		}
		rest := q.items[:0]
		for _, w := range q.items {
			if len(rows) < most && single(w) {
				rows = append(rows, taskRows{item: w, n: 1})
			} else {
				rest = append(rest, w)
			}
		}
		q.items = rest
	})
	return rows
}

// nextRows takes the rows of the next pass out of the queue and adds drafts.
func (e *Engine) nextRows() (rows []taskRows) {
	if e.options.Exact {
		rows = e.queue.takeExact(e.chunkRows, e.options.exactRows())
	} else {
		rows = e.queue.take(e.chunkRows)
	}
	e.addDrafts(rows)
	return rows
}

// patience is the fraction 1/patience of a pass's time that it waits for rows.
const patience = 8

// waitForMore waits for requests that will add rows soon, if their rows could
// share the pass, and no longer than a fraction of the pass's time. Otherwise two
// requests that have just shared a pass would run alone from then on.
func (e *Engine) waitForMore() {
	var timer <-chan time.Time
	for {
		e.queue.mu.Lock()
		waiting, coming := e.queue.waiting(), e.queue.coming
		e.queue.mu.Unlock()
		rows := e.chunkRows(waiting + coming)
		if coming <= 0 || rows <= e.chunkRows(waiting) {
			return
		}
		if timer == nil {
			timer = time.After(e.hostTimes.Measured(e.widthFor(rows)) / patience)
		}
		select {
		case <-e.queue.news:
		case <-timer:
			return
		}
	}
}

// withdraw takes the request's item back after ctx has ended. If a pass has taken
// the item, withdraw settles its rows first, so that they stay in the cache.
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
