package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// This file is the engine's loop: next batch, blocks, head, verify, commit.

// compute returns once the request's tokens are computed and committed and the
// token after the last one is drawn. The request waits in the queue until a pass
// has room for its rows, and runs that pass itself if it gets the device lock.
func (g *generation) compute(ctx context.Context) error {
	e, w := g.engine, &g.item
	if err := ctx.Err(); err != nil { // select takes any ready case
		return fmt.Errorf("engine: %w", err)
	}
	w.outputs, w.err, w.finished = make(chan *passOutput, 1), nil, false
	for e.queue.add(w); !w.finished; {
		select {
		case o := <-w.outputs:
			g.receive(o, true)
		case <-ctx.Done():
			return g.withdraw(ctx)
		case e.deviceLock <- struct{}{}:
			if err := e.runNextPass(ctx, g); err != nil {
				return err
			}
		}
	}
	return w.err
}

// runNextPass runs a pass with rows of the request queue, be they of own or of
// other requests, and returns once each request has committed its rows. The
// caller holds the device lock; runNextPass releases it.
func (e *Engine) runNextPass(ctx context.Context, own *generation) error {
	defer e.unlock()
	if err := e.prepareFor(ctx); err != nil {
		e.queue.withdraw(&own.item) // the element is there, because no pass runs
		return err
	}
	e.waitForMore()
	if x := e.nextWindow(); x != nil && e.queue.takeItem(itemOf(x)) {
		e.runWindow(ctx, own, x)
		return nil
	}
	next := e.nextRows()
	defer func() { e.abandon(own, next) }() // next is empty unless the device panics
	if len(next) > 1 || next[0].item != &own.item {
		ctx = context.WithoutCancel(ctx) // other requests need the pass
	}
	for size := len(next); len(next) > 0; {
		rows := next[:size]
		result, err := e.computeRows(ctx, rows)
		if spoiled(err) && (size > 1 || rows[0].drafts > 0) {
			size = 1 // only a request that has the token in its text fails
			dropDrafts(next)
			continue
		}
		next = next[size:]
		e.deliver(own, e.outputs(ctx, rows, result, err))
	}
	return nil
}

// computeRows computes a batch of rows. If the device restarts during the pass, it
// loads the graphs and computes the batch once more.
func (e *Engine) computeRows(ctx context.Context, rows []taskRows) (r *Result, err error) {
	for again := false; ; again = true {
		e.power.Vote(phaseOf(rows))
		began := time.Now()
		b, x, err := e.batchOf(rows)
		if err == nil {
			r, err = e.forward(ctx, b)
		}
		if err == nil {
			err = e.checkFresh(b, 0, e.config.Layers)
		}
		if err == nil {
			r.began, r.took = began, time.Since(began)
			width := r.ValidRows + r.PaddingRows
			e.passTimes.Record(width, r.device(r.took))
			e.hostTimes.Record(width, r.took)
			x.ChunkDone()
			return r, nil
		}
		if again || !e.reloadAfterRestart(err) {
			return nil, err
		}
	}
}

// forward runs a batch through all blocks and the head.
func (e *Engine) forward(ctx context.Context, b *batch) (*Result, error) {
	run, err := e.embed(b)
	if err != nil {
		return nil, err
	}
	for _, block := range run.graphs.Blocks {
		if err := run.runBlock(ctx, block); err != nil {
			return nil, err
		}
	}
	return run.runHead(ctx)
}

// deliver hands each request its rows and returns once all of them are settled.
// own settles its rows here; other requests do so on their own goroutines.
func (e *Engine) deliver(own *generation, outputs []*passOutput) {
	var waiting sync.WaitGroup
	waiting.Add(len(outputs))
	defer waiting.Wait() // even if a draw of own panics
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

// settle verifies the drafts among the request's rows of a pass, draws the next
// token and commits the rows that became text. It runs on the request's own
// goroutine, while the goroutine that ran the pass holds the device lock for it.
func (g *generation) settle(o *passOutput) (refused error) {
	path, steps := o.tokenRows(), g.report.DecodeSteps
	if o.rows.last() || g.item.everyRow {
		var accepted []int32
		accepted, refused = g.verify(o)
		path = append(path, o.draftRows(accepted)...)
		o.accepted, o.right = len(accepted), len(accepted)
		if o.rows.drafts == 0 {
			o.right = g.guessed()
		}
	}
	o.verified = true
	g.item.account.Add(o.cost.of(o.accepted))
	began := time.Now()
	if err := g.engine.commit(g.item.sequence, path); err != nil {
		return err
	}
	g.item.tokens = g.item.tokens[o.rows.n:]
	verified := g.report.DecodeSteps > steps
	if verified {
		g.paced += o.result.paced
	}
	g.report.addPass(o, len(path), verified, time.Since(began))
	return refused
}
