package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/calibration"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec"
)

// Generate continues a prompt and hands the text to emit piece by piece, none
// of them empty. It waits until a sequence is free. It ends with the Report
// when the output does, or with an error: that of ctx or emit, a
// [PromptTooLongError], [ErrRequest], or a device's. The report then tells what
// was done until there, and what was computed stays in the cache.
func (e *Engine) Generate(ctx context.Context, r Request, emit func(Piece) error) (report Report, err error) {
	g := &generation{
		engine: e, request: r, emit: emit, began: time.Now(), text: newText(r.Stop),
		report: Report{
			Recipe: e.options.Recipe.Name, Widths: e.options.Rows, Blocks: e.options.Blocks, Residency: e.residencyName(),
			Lossless: e.lossless(), Clock: e.clock, Ops: make(map[backend.Lane]int64),
		},
	}
	g.report.Began = g.began
	if err := e.checkRequest(r); err != nil {
		return g.report, err
	}
	if clock := e.options.ProcessTime; clock != nil {
		before := clock()
		defer func() { report.Processor = clock() - before }()
	}
	if g.sampler, err = sampler.New(r.Sampling); err != nil {
		return g.report, fmt.Errorf("engine: %w: %w", ErrRequest, err)
	}
	sequence, common, err := e.sequences.acquire(ctx, r.Prompt, r.CachePrompt)
	if err != nil {
		return g.report, err
	}
	defer e.sequences.release(sequence)
	e.power.enter()
	defer e.power.leave()
	e.enterIdle()
	defer e.leaveIdle()
	g.job.sequence, g.job.report, g.job.verify = sequence, &g.report, g.verify
	g.job.whole = r.Logprobs > 0 || !r.Sampling.ServedBy(e.options.Top, e.config.Vocab)
	err = g.run(ctx, min(common, len(r.Prompt)-1))
	if errors.Is(err, sampler.ErrLogits) {
		// What made them is in the cache and must not reach the next request.
		err = errors.Join(err, e.Truncate(sequence, 0))
	}
	return g.report, err
}

func (e *Engine) checkRequest(r Request) error {
	switch {
	case len(r.Prompt) == 0:
		return fmt.Errorf("engine: %w: the prompt is empty", ErrRequest)
	case len(r.Prompt) > e.options.Context:
		return &PromptTooLongError{Tokens: len(r.Prompt), Context: e.options.Context}
	case r.Plan != nil && e.options.Exact:
		return fmt.Errorf("engine: %w: a plan of its own where each token has one width", ErrRequest)
	case r.Logprobs < 0:
		return fmt.Errorf("engine: %w: %d logprobs", ErrRequest, r.Logprobs)
	}
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= e.config.Vocab {
			return fmt.Errorf("engine: %w: token %d of the prompt is %d, the vocabulary has %d", ErrRequest, i, t, e.config.Vocab)
		}
	}
	return nil
}

// generation is one Generate that goes on.
type generation struct {
	engine  *Engine
	request Request
	emit    func(Piece) error
	began   time.Time
	sampler *sampler.Sampler
	text    *text
	report  Report
	job     job
	// execution is what exchanged graphs for the prompt, or nil.
	execution *execution
	// drafter and tree are nil without drafts.
	drafter *draft.Drafter
	tree    *spec.Tree
	top     calibration.Row
	// prompted counts the prompt's tokens that the drafter has been told of, the
	// last of them perhaps by who sends to observing when it is done.
	prompted  int
	observing <-chan spent
	// pieces is the text of what the last pass drew; ending is why the output
	// ends with it.
	pieces []Piece
	ending StopReason
}

func (g *generation) run(ctx context.Context, cached int) error {
	if err := g.engine.Truncate(g.job.sequence, cached); err != nil {
		return err
	}
	g.engine.line.enter()
	defer g.engine.line.leave()
	defer func() { g.report.Context = g.engine.family.Load().context }()
	g.report.CachedTokens = cached
	g.startDrafts()
	g.job.everyRow = g.job.everyRow || g.request.AllLogits
	err := g.prefill(ctx, cached)
	if err != nil {
		g.report.Prefill = time.Since(g.began)
	} else {
		started := time.Now()
		err = g.decode(ctx)
		g.report.Decode = time.Since(started)
	}
	g.endDrafts(err == nil)
	if e := g.engine; err == nil {
		e.habitsMu.Lock()
		e.habits.answered(g.report.OutputTokens, g.report.AcceptLength(), g.report.Decode)
		e.habitsMu.Unlock()
	}
	if x := g.execution; x != nil {
		x.log.behind(g.report.Verifications, g.report.CPU, g.engine.options.Blocks, g.engine.options.Rows[0])
		g.report.Plan = g.engine.planReport(x)
	} else {
		g.report.Plan = g.residentReport()
	}
	return err
}

// prefill computes the prompt from token cached on.
func (g *generation) prefill(ctx context.Context, cached int) error {
	prompt := g.request.Prompt
	for _, token := range prompt {
		g.sampler.Accept(token)
	}
	before := g.report.ValidRows
	if err := g.reserve(ctx, len(prompt)); err != nil {
		return err
	}
	var err error
	if g.execution, err = g.engine.planPrompt(ctx, g, cached, prompt[cached:]); err != nil {
		return err
	}
	err = g.computePrompt(ctx, cached, prompt[cached:])
	g.job.everyRow = false
	g.report.PromptDrafting, g.report.PromptDraftingCPU = g.report.Drafting, g.report.DraftingCPU
	g.report.PromptTokens = g.report.ValidRows - before
	return err
}

// computePrompt has the prompt's tokens computed, by a plan if there is one.
func (g *generation) computePrompt(ctx context.Context, cached int, tokens []int32) error {
	x := g.execution
	if x != nil && g.engine.inVirtualTime() {
		g.job.tokens = tokens
		return g.engine.drive(ctx, x)
	}
	err := g.feed(ctx, cached, tokens)
	x.end(err != nil)
	return err
}

// feed has tokens computed that follow the first length ones, and draws what
// follows them.
func (g *generation) feed(ctx context.Context, length int, tokens []int32) error {
	if err := g.reserve(ctx, length+len(tokens)); err != nil {
		return err
	}
	g.job.tokens = tokens
	return g.engine.compute(ctx, &g.job)
}

// reserve lets the context grow; nobody waits for this generation meanwhile.
func (g *generation) reserve(ctx context.Context, n int) error {
	if n <= g.engine.family.Load().context {
		return nil
	}
	g.engine.line.leave()
	defer g.engine.line.enter()
	growth, err := g.engine.reserve(ctx, n)
	if growth != nil {
		g.report.Growths = append(g.report.Growths, *growth)
	}
	return err
}

// decode hands out what was drawn and goes on until the output ends.
func (g *generation) decode(ctx context.Context) error {
	for {
		if err := g.handOut(); err != nil {
			return err
		}
		if g.ending != "" {
			return g.end(g.ending)
		}
		more, err := g.goOn(ctx, g.report.Output[len(g.report.Output)-1])
		if err != nil && ctx.Err() == nil { // a draw failed: what drafts let it say before stands
			err = errors.Join(err, g.handOut())
		}
		if err != nil {
			return err
		}
		if !more {
			return g.end(StopLimit)
		}
	}
}

// handOut sends the text of what was drawn.
func (g *generation) handOut() error {
	for _, piece := range g.pieces {
		if err := g.send(piece); err != nil {
			return err
		}
	}
	g.pieces = g.pieces[:0]
	return nil
}

// goOn computes what follows token, or reports that there is no place for it.
func (g *generation) goOn(ctx context.Context, token int32) (more bool, err error) {
	length := g.engine.sequences.length(g.job.sequence)
	if length < g.engine.options.Context {
		g.propose(length)
		return true, g.feed(ctx, length, []int32{token})
	}
	g.job.drafts = nil
	g.report.Truncated = true
	if !g.request.Shift {
		return false, nil
	}
	return g.shift(ctx, token)
}

// shift makes room in a full context: of the tokens behind those to keep the
// older half goes, and what follows is computed again at its new place. So the
// text goes on as a new prompt of these tokens would, to the bit on devices
// whose rows do not depend on their pass; it costs the prefill of half a
// context for every half context of output.
func (g *generation) shift(ctx context.Context, token int32) (more bool, err error) {
	held := g.engine.Tokens(g.job.sequence)
	keep := min(max(g.request.Keep, 0), max(g.engine.options.Context-leastShifting, 0))
	drop := (len(held) - keep) / 2
	if drop == 0 {
		return false, nil
	}
	if err := g.engine.Truncate(g.job.sequence, keep); err != nil {
		return false, err
	}
	g.report.Shifts++
	g.report.DroppedTokens += drop
	return true, g.feed(ctx, keep, append(held[keep+drop:], token))
}

// leastShifting is how many tokens of a context can always be dropped or
// written, whatever the request wants to keep (llama-server's number).
const leastShifting = 4

// verify draws what follows the job's tokens, along its drafts as far as they
// are right. What is drawn depends on the logits of the right rows only, so it
// is the same with any drafts or none.
func (g *generation) verify(v verdict) (path []int32, err error) {
	if !v.share.last() {
		g.learn(v, nil, nil)
		return nil, nil
	}
	drafts := &spec.Tree{}
	if v.share.drafts > 0 {
		drafts = g.job.drafts.Head(v.share.drafts)
	}
	before := g.report.OutputTokens
	if before == 0 {
		g.report.Prefill = time.Since(g.began)
	}
	began := time.Now()
	path, _ = spec.Verify(drafts, func(row int32) (token int32, more bool) {
		token, more, err = g.draw(v, v.row(row))
		return token, more
	}, nil, nil)
	g.worked(graphswap.Sample, spent{began: began, wall: time.Since(began)})
	if before > 0 {
		g.report.DecodeSteps++
		g.report.DraftedRows += drafts.Len()
		g.report.AcceptedRows += len(path)
	}
	if err == nil {
		g.learn(v, path, g.report.Output[before:])
	}
	return path, err
}

// draw takes the token that follows a row; nothing may follow it unless more.
func (g *generation) draw(v verdict, row int) (token int32, more bool, err error) {
	r := &g.request
	if r.MaxTokens >= 0 && g.report.OutputTokens >= r.MaxTokens {
		g.ending = StopLimit
		return 0, false, nil
	}
	token, logits, err := g.choose(v, row)
	if err != nil {
		return 0, false, fmt.Errorf("engine: %w", err)
	}
	g.sampler.Accept(token)
	if r.Mask != nil {
		r.Mask.Accept(token)
	}
	if g.report.OutputTokens == 0 {
		g.report.FirstToken = time.Since(g.began)
	}
	g.report.OutputTokens++
	g.report.Output = append(g.report.Output, token)
	if !r.IgnoreEOS && g.engine.tokenizer.IsEOG(token) {
		g.ending = StopEOS
		return token, false, nil
	}
	g.pieces = append(g.pieces, g.text.add(g.bytes(token), g.logprob(token, logits)))
	switch {
	case g.text.stopped:
		g.ending = StopWord
	case r.MaxTokens >= 0 && g.report.OutputTokens >= r.MaxTokens:
		g.ending = StopLimit
	}
	return token, g.ending == "", nil
}

// choose samples from the best logits of a row, or from all of them, which it
// then returns, where the best do not determine the token or the request wants
// to see them.
func (g *generation) choose(v verdict, row int) (token int32, logits []float32, err error) {
	if !g.job.whole {
		if token, ok := g.sampler.SampleTop(v.tops[row], g.request.Mask); ok {
			g.report.TopDraws++
			return token, nil, nil
		}
	}
	g.report.RowDraws++
	if logits, err = v.wholeRow(row); err != nil {
		return 0, nil, err
	}
	token, err = g.sampler.Sample(logits, g.request.Mask)
	return token, logits, err
}

// end hands out what was held back.
func (g *generation) end(reason StopReason) error {
	g.report.Stop = reason
	return g.send(g.text.finish())
}

func (g *generation) send(p Piece) error {
	if p.Text == "" {
		return nil
	}
	if err := g.emit(p); err != nil {
		return fmt.Errorf("engine: hand out text: %w", err)
	}
	return nil
}

// bytes is what a token adds to the output.
func (g *generation) bytes(token int32) []byte {
	if slices.Contains(g.request.Preserve, token) {
		return g.engine.tokenizer.PieceSpecial(token)
	}
	return g.engine.tokenizer.Piece(token)
}

func (g *generation) logprob(token int32, logits []float32) TokenLogprob {
	spell := func(id int32) string { return tokenText(g.engine.tokenizer.PieceSpecial(id)) }
	if g.request.Logprobs == 0 {
		return TokenLogprob{ID: token, Text: spell(token)}
	}
	return logprobs(logits, token, g.request.Logprobs, spell)
}
