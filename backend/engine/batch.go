package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/spec"
)

// job is what one generation waits to have computed: tokens that follow those
// of its sequence, and drafts that may follow the last one.
type job struct {
	sequence int
	tokens   []int32 // not computed yet; what is computed is committed
	// drafts run beside the last token, as many of the first as a pass has room
	// for.
	drafts *spec.Tree
	// everyRow asks for the best logits of all tokens, not of the last alone.
	everyRow bool
	// whole asks for all logits wherever a token may be drawn.
	whole  bool
	report *Report
	// verify is told the logits of a pass's rows once all tokens are computed and
	// returns the drafts that were accepted, each the parent of the next one.
	// Whoever leads the pass calls it, while the job's owner waits.
	verify func(verdict) ([]int32, error)
	done   chan struct{} // closed when no tokens are left, or with err
	err    error
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

// share is the part that a job has in a pass: the next n of its tokens and,
// behind the last, the first of its drafts.
type share struct {
	job       *job
	n, drafts int
}

// last tells that no token of the job is left for another pass.
func (s share) last() bool { return s.n == len(s.job.tokens) }

// verdict is what a pass says of a share's rows, first the tokens and then the
// drafts. It is gone with the next pass.
type verdict struct {
	share  share
	tops   []sampler.Top
	logits [][]float32 // nil where they were not asked for
	// whole fetches the logits of a row, valid until the next call.
	whole func(row int) ([]float32, error)
}

// row is the place of a draft, or of the last token for [spec.None].
func (v verdict) row(draft int32) int { return v.share.n + int(draft) }

// wholeRow is all logits of a row.
func (v verdict) wholeRow(row int) ([]float32, error) {
	if v.logits[row] != nil {
		return v.logits[row], nil
	}
	return v.whole(row)
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
			shares = append(shares, share{job: j, n: 1})
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

// takeAll removes one job from the line; false means that it is not there.
func (l *line) takeAll(j *job) (taken bool) {
	l.change(func() {
		n := len(l.jobs)
		l.jobs = slices.DeleteFunc(l.jobs, func(waiting *job) bool { return waiting == j })
		taken = len(l.jobs) < n
	})
	return taken
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
	if x := e.lanes.window(); x != nil && e.line.takeAll(x.job) {
		if x.job != own {
			ctx = context.WithoutCancel(ctx)
		}
		e.power.vote(backend.Prefill)
		e.runWindow(ctx, x)
		return
	}
	var shares []share
	if e.options.Exact {
		shares = e.line.takeAlike(e.chunk, e.options.VerifyRows())
	} else {
		shares = e.line.take(e.chunk)
	}
	e.addDrafts(shares)
	if len(shares) > 1 || shares[0].job != own {
		ctx = context.WithoutCancel(ctx) // it is not for who leads alone
	}
	e.pass(ctx, shares)
}

// pass runs shares and settles them. A token whose embedding is broken, or whose
// keys and values are no numbers, spoils the request that says it, not the
// others nor one that only has it as a draft: such a pass runs again, a request
// at a time and without drafts.
func (e *Engine) pass(ctx context.Context, shares []share) {
	e.power.vote(phaseOf(shares))
	begin := time.Now()
	r, err := e.runShares(ctx, shares)
	if e.survives(err) {
		e.power.vote(phaseOf(shares))
		begin = time.Now()
		r, err = e.runShares(ctx, shares)
	}
	if (errors.Is(err, model.ErrInvalid) || errors.Is(err, sampler.ErrLogits)) && (len(shares) > 1 || shares[0].drafts > 0) {
		for _, s := range shares {
			e.pass(ctx, []share{{job: s.job, n: s.n}})
		}
		return
	}
	if err == nil {
		r.began, r.took = begin, time.Since(begin)
		e.timed(r.ValidRows+r.PaddingRows, r.took)
	}
	at := 0
	for _, s := range shares {
		own := err // what goes wrong with one job is not another one's
		if own == nil {
			own = e.settle(ctx, s, at, r)
		}
		at += s.n + s.drafts
		if own != nil || len(s.job.tokens) == 0 || !e.line.give(s.job) {
			e.line.finish(s.job, own)
		}
	}
}

// survives reports whether a failed pass may run again: the device has
// restarted, and its programs are loaded anew. Keys and values are the host's, and
// nothing of a pass counts before its end, so no text is lost; the votes were the
// device's and are asked for again.
func (e *Engine) survives(err error) bool {
	if err != nil {
		e.power.forget()
	}
	return errors.Is(err, backend.ErrRestarted) && e.usable() == nil
}

// runShares makes one pass of the shares, their rows behind each other.
func (e *Engine) runShares(ctx context.Context, shares []share) (*Result, error) {
	pl, err := e.plan(sharesPass(shares))
	if err != nil {
		return nil, err
	}
	x := e.lanes.planned(shares)
	if x != nil {
		pl.chunk = x.chunk
	}
	r, err := e.forward(ctx, pl)
	if err == nil {
		err = e.checkFresh(pl, 0, e.config.Layers)
	}
	if err == nil && x != nil {
		e.lanes.change(func() { x.chunk++ })
	}
	return r, err
}

// sharesPass holds the rows of shares behind each other.
func sharesPass(shares []share) (p Pass) {
	for _, s := range shares {
		for i, token := range s.job.tokens[:s.n] {
			parent := Root
			if i > 0 {
				parent = len(p.Rows) - 1
			}
			p.Rows = append(p.Rows, Row{
				Token: token, Sequence: s.job.sequence, Parent: parent,
				Top: s.job.everyRow || i == len(s.job.tokens)-1, Logits: s.job.whole && i == len(s.job.tokens)-1,
			})
		}
		root := len(p.Rows) - 1
		for i := range s.drafts {
			p.Rows = append(p.Rows, Row{
				Token: s.job.drafts.Tokens[i], Sequence: s.job.sequence,
				Parent: root + 1 + int(s.job.drafts.Parents[i]), Top: true, Logits: s.job.whole,
			})
		}
	}
	return p
}

// checkFresh refuses a pass some of whose keys or values, of layers from first
// to end, are no numbers. Masks are added, so one such slot would make every row
// that it is hidden from NaN, in this pass and, once it is in the cache, in all
// that follow.
func (e *Engine) checkFresh(pl *plan, first, end int) error {
	c := e.config
	size := c.HeadDim * e.options.Recipe.Cache.Size()
	for i := first; i < end; i++ {
		for kv := range 2 {
			fresh, width := pl.fresh[i].of(kv)
			for head := range c.KVHeads {
				from := head * width * size
				if !finite(fresh[from:from+len(pl.rows)*size], e.options.Recipe.Cache) {
					return fmt.Errorf("engine: layer %d: its keys or values overflow %v: %w: recipe f32 holds larger numbers",
						i, e.options.Recipe.Cache, sampler.ErrLogits)
				}
			}
		}
	}
	return nil
}

// finite reports whether there is no infinity and no NaN among elements.
func finite(b []byte, t backend.DataType) bool {
	switch {
	case t == backend.Float16:
		return quant.FirstNotFiniteF16(b) < 0
	case t.Fixed(): // all integers are numbers
		return true
	}
	for ; len(b) >= 4; b = b[4:] {
		if binary.LittleEndian.Uint32(b)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// settle commits a share, whose rows begin at row at, and reports it.
func (e *Engine) settle(ctx context.Context, s share, at int, r *Result) error {
	path := make([]int, s.n, s.n+s.drafts)
	for i := range path {
		path[i] = at + i
	}
	report, accepted := s.job.report, []int32(nil)
	steps := report.DecodeSteps
	var refused error
	if s.last() || s.job.everyRow {
		end := at + s.n + s.drafts
		accepted, refused = s.job.verify(verdict{s, r.Top[at:end], r.Logits[at:end], func(row int) ([]float32, error) {
			return e.wholeRow(ctx, at+row, r)
		}})
		for _, draft := range accepted {
			path = append(path, at+s.n+int(draft))
		}
		if s.drafts > 0 {
			e.trust.Observe(s.job.drafts.Scores[:s.drafts], len(accepted))
		}
	}
	began := time.Now()
	if err := e.commit(s.job.sequence, path); err != nil {
		return err
	}
	s.job.tokens = s.job.tokens[s.n:]
	report.add(r, len(path), s.n+s.drafts)
	if report.DecodeSteps == 0 && len(report.PromptPasses) < maxVerified {
		report.PromptPasses = append(report.PromptPasses, PromptPass{
			Width: r.ValidRows + r.PaddingRows, Rows: s.n, Logits: r.wanted(at, s.n), Began: r.began, Pass: r.took, Device: r.virtual,
		})
	}
	if report.DecodeSteps > steps {
		report.Verifications = append(report.Verifications, Verification{
			Width: r.ValidRows + r.PaddingRows, Drafted: s.drafts, Accepted: len(accepted), Shared: r.ValidRows - s.n - s.drafts,
			Began: r.began, Pass: r.took, Commit: time.Since(began), Device: r.virtual,
		})
	}
	return refused
}

// wanted counts those of n rows from row at on for which the head ran.
func (r *Result) wanted(at, n int) (wanted int) {
	for i := at; i < at+n; i++ {
		if len(r.Top[i].IDs) > 0 || r.Logits[i] != nil {
			wanted++
		}
	}
	return wanted
}

// add counts a pass that had rows of the request, of which some were valid.
func (r *Report) add(pass *Result, valid, rows int) {
	r.Steps++
	r.ValidRows += valid
	r.WastedRows += rows - valid
	r.SharedRows += pass.ValidRows - rows
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
