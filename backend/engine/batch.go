package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// job is what one generation waits to have computed: tokens that follow those
// of its sequence. Its result are the logits behind the last one.
type job struct {
	sequence int
	tokens   []int32 // not computed yet; what is computed is committed
	report   *Report
	logits   []float32     // appended to its beginning
	done     chan struct{} // closed when no tokens are left, or with err
	err      error
	// gone tells that nobody waits for the rest.
	gone bool
}

// line is where jobs wait, the one whose turn is next first. Who gets hold of
// the lane takes rows of as many jobs as one pass pays for, its own or not.
type line struct {
	mu   sync.Mutex
	jobs []*job
	// between counts generations that have no job but will soon: they draw a
	// token and hand out its text.
	between int
	news    chan struct{} // tells that jobs or between have changed
}

func newLine() *line { return &line{news: make(chan struct{}, 1)} }

// share is the part that a job has in a pass: the next n of its tokens.
type share struct {
	job *job
	n   int
}

// change lets f change the line.
func (l *line) change(f func()) {
	l.mu.Lock()
	f()
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// enter and leave frame the time in which a generation has jobs.
func (l *line) enter() { l.change(func() { l.between++ }) }
func (l *line) leave() { l.change(func() { l.between-- }) }

func (l *line) add(j *job) {
	l.change(func() {
		l.between--
		l.jobs = append(l.jobs, j)
	})
}

// finish ends a job that is not in the line. The caller must not touch it
// again.
func (l *line) finish(j *job, err error) {
	l.change(func() { l.between++ })
	j.err = err
	close(j.done)
}

// withdraw takes a job out of the line. One that is just being computed ends
// after that pass, and false is returned.
func (l *line) withdraw(j *job) (taken bool) {
	l.change(func() {
		for i, waiting := range l.jobs {
			if waiting == j {
				l.jobs = append(l.jobs[:i], l.jobs[i+1:]...)
				l.between++
				taken = true
				return
			}
		}
		j.gone = true
	})
	return taken
}

// waiting counts the rows that jobs could fill.
func (l *line) waiting() (rows int) {
	for _, j := range l.jobs {
		rows += len(j.tokens)
	}
	return rows
}

// take removes from the line what goes into the next pass, of which chunk says
// how many of the waiting rows it takes: one row for each job in turn, so that
// none waits for the end of another one's prompt, and then what is left of the
// rows for the first.
func (l *line) take(chunk func(rows int) int) (shares []share) {
	l.change(func() {
		left := chunk(l.waiting())
		for _, j := range l.jobs[:min(left, len(l.jobs))] {
			shares = append(shares, share{j, 1})
			left--
		}
		l.jobs = append(l.jobs[:0], l.jobs[len(shares):]...)
		for i := range shares {
			more := min(left, len(shares[i].job.tokens)-1)
			shares[i].n += more
			left -= more
		}
	})
	return shares
}

// give puts a job whose tokens are not all computed behind the others. It
// reports whether somebody still waits for it.
func (l *line) give(j *job) (ok bool) {
	l.change(func() {
		if ok = !j.gone; ok {
			l.jobs = append(l.jobs, j)
		}
	})
	return ok
}

// compute has the tokens of a job run and committed.
func (e *Engine) compute(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil { // select takes any ready case
		return fmt.Errorf("engine: %w", err)
	}
	j.done = make(chan struct{})
	e.line.add(j)
	for {
		select {
		case <-j.done:
			return j.err
		case <-ctx.Done():
			if e.line.withdraw(j) {
				return fmt.Errorf("engine: %w", ctx.Err())
			}
			<-j.done // the pass that holds some of its rows
			return errors.Join(fmt.Errorf("engine: %w", ctx.Err()), j.err)
		case e.lane <- struct{}{}:
		}
		err := e.usable()
		if ctx.Err() != nil {
			err = fmt.Errorf("engine: %w", ctx.Err())
		}
		switch {
		case finished(j): // while the lane was waited for
		case err != nil:
			e.line.withdraw(j) // no pass runs: it is there
			e.unlock()
			return err
		default:
			e.lead(ctx, j)
		}
		e.unlock()
	}
}

func finished(j *job) bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// lead runs one pass with what is in line. The caller holds the lane.
func (e *Engine) lead(ctx context.Context, own *job) {
	e.linger()
	shares := e.line.take(e.chunk)
	if len(shares) > 1 || shares[0].job != own {
		ctx = context.WithoutCancel(ctx) // it is not for who leads alone
	}
	begin := time.Now()
	r, err := e.runShares(ctx, shares)
	if err == nil {
		e.took[r.ValidRows+r.PaddingRows] = time.Since(begin)
	}
	at := 0
	for _, s := range shares {
		if err == nil {
			err = e.settle(s, at, r)
		}
		at += s.n
		if err != nil || len(s.job.tokens) == 0 || !e.line.give(s.job) {
			e.line.finish(s.job, err)
		}
	}
}

// runShares makes one pass of the shares, their rows behind each other.
func (e *Engine) runShares(ctx context.Context, shares []share) (*Result, error) {
	var p Pass
	for _, s := range shares {
		for i, token := range s.job.tokens[:s.n] {
			parent := Root
			if i > 0 {
				parent = len(p.Rows) - 1
			}
			p.Rows = append(p.Rows, Row{
				Token: token, Sequence: s.job.sequence, Parent: parent,
				Logits: i == len(s.job.tokens)-1,
			})
		}
	}
	pl, err := e.plan(p)
	if err != nil {
		return nil, err
	}
	return e.forward(ctx, pl)
}

// settle commits a share, whose rows begin at row at, and reports it.
func (e *Engine) settle(s share, at int, r *Result) error {
	path := make([]int, s.n)
	for i := range path {
		path[i] = at + i
	}
	if err := e.commit(s.job.sequence, path); err != nil {
		return err
	}
	s.job.tokens = s.job.tokens[s.n:]
	s.job.report.add(r, s.n)
	// The logits are those of the next pass soon: they are copied now.
	s.job.logits = append(s.job.logits[:0], r.Logits[at+s.n-1]...)
	return nil
}

// add counts a pass that had n rows of the request.
func (r *Report) add(pass *Result, n int) {
	r.Steps++
	r.ValidRows += n
	r.SharedRows += pass.ValidRows - n
	r.PaddingRows += pass.PaddingRows
	if r.Ops == nil {
		r.Ops = make(map[backend.Lane]int64)
	}
	for lane, ops := range pass.Ops {
		r.Ops[lane] += ops
	}
}

// patience is the part of a pass that is waited for rows to share it.
const patience = 8

// linger waits for generations that are about to bring rows, if those could
// share the pass, and for a fraction of its time at most: without it two that
// have just shared a pass would go on apart.
func (e *Engine) linger() {
	var timer <-chan time.Time
	for {
		e.line.mu.Lock()
		waiting, coming := e.line.waiting(), e.line.between
		e.line.mu.Unlock()
		rows := e.chunk(waiting + coming)
		if coming <= 0 || rows <= e.chunk(waiting) {
			return
		}
		if timer == nil {
			timer = time.After(e.took[e.widthFor(rows)] / patience)
		}
		select {
		case <-e.line.news:
		case <-timer:
			return
		}
	}
}
