package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/report"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// passOutput is the part of a pass's result that belongs to one request. The goroutine that
// ran the pass creates the passOutput and then waits until settled is called. Until settled
// is called, only the request's goroutine reads the logits. Until settled is called, only
// the request's goroutine writes the fields accepted, verified, panicked and err.
type passOutput struct {
	rows taskRows
	// err is the error of the pass, or the error of settling the rows.
	err error
	// result is the result of the whole pass, and first the index in result of the request's
	// first row.
	result *Result
	first  int
	// tops and logits have one entry for each of the request's rows: first its tokens,
	// then its drafts. An entry of logits is nil if the row did not need all logits.
	tops   []sampler.Top
	logits [][]float32
	// readRow decodes all logits of a row of the pass into dst. readRow may run the
	// head again, and counts that run in extra.
	readRow func(dst []float32, row int, extra *Result) ([]float32, error)
	extra   Result
	row     []float32 // row holds the last row that wholeRow has read
	// turn is the work item's turn in the request queue if some of its tokens are left.
	turn uint64
	// partial is set if the pass keeps the work item out of the queue, because it will
	// deliver more rows of it.
	partial bool
	// The request must call settled once, when the rows are committed or given up.
	settled func()
	// accepted counts the accepted drafts. scores holds the scores of the drafts. right counts
	// the drafts that were equal to the drawn tokens; if the pass computed no drafts, right
	// counts whether a proposed draft was equal to the next token. verified is set when the
	// request has verified its drafts.
	accepted int
	scores   []float32
	right    int
	verified bool
	cost     passCost
	// panicked is set if a draw of the request has panicked; the request then receives
	// no more rows.
	panicked bool
}

// outputs divides the result of a pass, or its error, among its requests.
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

// tokenRows returns the indices of a request's token rows in the pass.
func (o *passOutput) tokenRows() []int {
	rows := make([]int, o.rows.n, o.rows.n+o.rows.drafts)
	for i := range rows {
		rows[i] = o.first + i
	}
	return rows
}

// draftRows returns the indices in the pass of the rows of the given drafts.
func (o *passOutput) draftRows(drafts []int32) (rows []int) {
	for _, draft := range drafts {
		rows = append(rows, o.first+o.indexOf(draft))
	}
	return rows
}

// indexOf returns the index of a draft's row among the request's rows. For [spec.None],
// indexOf returns the index of the last token.
func (o *passOutput) indexOf(draft int32) int { return o.rows.n + int(draft) }

// wholeRow returns all logits of one row of the request. The logits that wholeRow
// returns are valid until its next call.
func (o *passOutput) wholeRow(row int) ([]float32, error) {
	if o.logits[row] != nil {
		return o.logits[row], nil
	}
	var err error
	o.row, err = o.readRow(o.row, o.first+row, &o.extra)
	return o.row, err
}

// errAbandoned is returned to a request whose pass ended because of a panic.
var errAbandoned = errors.New("a panic has ended the pass: send the request again")

// receive settles the request's rows of a pass and tells the goroutine that ran the
// pass. If tokens are left, the work item goes back to the request queue, unless again
// is false because the request gives up.
func (g *generation) receive(o *passOutput, again bool) {
	q, w := g.engine.queue, &g.item
	ok, queued := false, false
	defer func() {
		if !ok { // a draw of this request has panicked
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

// abandon settles rows that a panic left without a result: they were taken from the
// queue but not delivered.
func (e *Engine) abandon(own *generation, rows []taskRows) {
	for _, s := range rows {
		if s.item == &own.item {
			e.queue.enter() // the goroutine of the request `own` is the one that panics, so it cannot receive an output
			continue
		}
		s.item.outputs <- &passOutput{rows: s, err: errAbandoned, settled: func() {}}
	}
}

// spoiled reports whether a pass failed because of one token of the batch: its
// embedding is broken, or its keys and values overflow. If one token causes an error,
// only the request that has the token in its text may fail. Other requests that share
// the pass, or have the token only as a draft, must not fail.
func spoiled(err error) bool {
	return errors.Is(err, model.ErrInvalid) || errors.Is(err, sampler.ErrLogits)
}

// dropDrafts removes all drafts from the rows of a pass.
func dropDrafts(rows []taskRows) {
	for i := range rows {
		rows[i].drafts = 0
	}
}

// deliver hands each request its rows and returns when all requests have settled them. The
// request `own` settles on the goroutine that calls deliver, and each other request on its
// own goroutine.
func (e *Engine) deliver(own *generation, outputs []*passOutput) {
	var waiting sync.WaitGroup
	waiting.Add(len(outputs))
	defer waiting.Wait() // deliver waits for the other requests even if a draw of the request own panics
	for _, o := range outputs {
		if o.settled = waiting.Done; o.rows.item != &own.item {
			o.rows.item.outputs <- o
		}
	}
	for _, o := range outputs {
		if o.rows.item == &own.item {
			own.receive(o, true)
		}
	}
	waiting.Wait()
	e.learnFromPass(outputs)
}

// countLogits returns the number of tokens of a pass for whose rows the head ran.
func (o *passOutput) countLogits() (n int) {
	for i := range o.rows.n {
		if len(o.tops[i].IDs) > 0 || o.logits[i] != nil {
			n++
		}
	}
	return n
}

// describe describes for the request's report the pass of an output. kept is the number
// of the request's rows that became text.
func (o *passOutput) describe(kept int, verified bool, commit time.Duration) *report.Pass {
	pass := o.result
	return &report.Pass{
		Began: pass.began, Took: pass.took, Commit: commit, Device: pass.virtual + o.extra.virtual,
		ValidRows: pass.ValidRows, PaddingRows: pass.PaddingRows,
		Tokens: o.rows.n, Drafts: o.rows.drafts, Logits: o.countLogits(),
		Kept: kept, Accepted: o.accepted, Verified: verified, Ops: pass.Ops, HeadOps: o.extra.Ops,
	}
}
