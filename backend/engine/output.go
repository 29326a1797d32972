package engine

import (
	"context"
	"errors"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// passOutput is one request's part of a pass. The goroutine that ran the pass makes it
// and waits for settled; until then the request's goroutine reads the logits and writes
// accepted, verified, panicked and err.
type passOutput struct {
	rows taskRows
	// err ended the pass, or the settling of the rows.
	err error
	// result belongs to the whole pass, in which the request's rows begin at first.
	result *Result
	first  int
	// tops and logits have an entry for each of the request's rows: its tokens, then
	// its drafts. An entry of logits is nil if the row did not ask for all logits.
	tops   []sampler.Top
	logits [][]float32
	// readRow decodes all logits of a row of the pass into dst. It may run the head
	// again, which it counts in extra.
	readRow func(dst []float32, row int, extra *Result) ([]float32, error)
	extra   Result
	row     []float32 // the last row that wholeRow read
	// turn is the item's place in the queue if tokens are left.
	turn uint64
	// partial is set if the pass keeps the item and will deliver more.
	partial bool
	// settled must be called once: the rows are committed, or never will be.
	settled func()
	// accepted counts the accepted drafts. scores are the scores of the drafts, and right
	// counts the right ones: of a pass without drafts, those that the next token could
	// have been. verified tells that the request has verified them.
	accepted int
	scores   []float32
	right    int
	verified bool
	cost     passCost
	// panicked tells that a draw of the request has panicked: it receives nothing more.
	panicked bool
}

// outputs divides the result of a pass, or its error, among the requests.
func (e *Engine) outputs(ctx context.Context, rows []taskRows, r *Result, err error) []*passOutput {
	list, turn, at, b := make([]*passOutput, len(rows)), e.queue.reserveTurns(len(rows)), 0, e.last
	cost := e.costOf(rows)
	for i, s := range rows {
		o := &passOutput{rows: s, err: err, turn: turn + uint64(i), first: at, cost: cost}
		if end := at + s.n + s.drafts; err == nil {
			o.result, o.tops, o.logits = r, r.Top[at:end], r.Logits[at:end]
			o.extra.Ops = make(map[backend.Lane]int64)
			o.readRow = func(dst []float32, row int, extra *Result) ([]float32, error) {
				return e.wholeRow(ctx, dst, b, row, extra)
			}
			o.scores = s.scores()
			at = end
		}
		list[i] = o
	}
	return list
}

// tokenRows returns the rows of the pass that are the request's tokens.
func (o *passOutput) tokenRows() []int {
	rows := make([]int, o.rows.n, o.rows.n+o.rows.drafts)
	for i := range rows {
		rows[i] = o.first + i
	}
	return rows
}

// draftRows returns the rows of the pass that are the given drafts.
func (o *passOutput) draftRows(drafts []int32) (rows []int) {
	for _, draft := range drafts {
		rows = append(rows, o.first+o.indexOf(draft))
	}
	return rows
}

// indexOf returns a draft's index among the request's rows, or for [spec.None] the index of the
// last token.
func (o *passOutput) indexOf(draft int32) int { return o.rows.n + int(draft) }

// wholeRow returns all logits of one of the request's rows. They are valid until
// the next call.
func (o *passOutput) wholeRow(row int) ([]float32, error) {
	if o.logits[row] != nil {
		return o.logits[row], nil
	}
	var err error
	o.row, err = o.readRow(o.row, o.first+row, &o.extra)
	return o.row, err
}

// errAbandoned is returned to requests whose pass ended in a panic.
var errAbandoned = errors.New("the pass was given up after a panic")

// receive settles rows of a pass and reports that to the goroutine that ran it.
// If tokens are left, the item goes back to the queue, unless again is false: the
// request gives up.
func (g *generation) receive(o *passOutput, again bool) {
	q, w := g.engine.queue, &g.item
	ok, queued := false, false
	defer func() {
		if !ok { // a draw has panicked
			o.err, o.panicked = errAbandoned, true
		}
		if !queued && (!o.partial || o.panicked) {
			w.finished = true
			q.enter()
		}
		o.settled()
	}()
	if o.err == nil && o.rows.n > 0 {
		o.err = g.settle(o)
	}
	w.err = o.err
	if o.err == nil && len(w.tokens) > 0 && again && !o.partial {
		q.putBack(w, o.turn)
		queued = true
	}
	ok = true
}

// abandon gives up rows that were taken but not delivered.
func (e *Engine) abandon(own *generation, rows []taskRows) {
	for _, s := range rows {
		if s.item == &own.item {
			e.queue.enter() // own's goroutine panics
			continue
		}
		s.item.outputs <- &passOutput{rows: s, err: errAbandoned, settled: func() {}}
	}
}

// spoiled reports whether an error comes from one token of the batch: its
// embedding is broken, or its keys and values overflow. That must fail the
// request that has the token in its text, not requests that share the pass nor one
// that only has the token as a draft.
func spoiled(err error) bool {
	return errors.Is(err, model.ErrInvalid) || errors.Is(err, sampler.ErrLogits)
}

// dropDrafts takes the drafts out of the rows.
func dropDrafts(rows []taskRows) {
	for i := range rows {
		rows[i].drafts = 0
	}
}
