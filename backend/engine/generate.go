package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// Generate continues a prompt and hands the text to emit piece by piece, none
// of them empty. It waits until a sequence is free. It ends with the Report
// when the output does, or with an error: that of ctx or emit, a
// [PromptTooLongError], [ErrRequest], or a device's. The report then tells what
// was done until there, and what was computed stays in the cache.
func (e *Engine) Generate(ctx context.Context, r Request, emit func(Piece) error) (Report, error) {
	g := &generation{
		engine: e, request: r, emit: emit, began: time.Now(), text: newText(r.Stop),
		report: Report{Recipe: e.options.Recipe.Name, Widths: e.options.Rows, Blocks: e.options.Blocks, Ops: make(map[backend.Lane]int64)},
	}
	if err := e.checkRequest(r); err != nil {
		return g.report, err
	}
	var err error
	if g.sampler, err = sampler.New(r.Sampling); err != nil {
		return g.report, fmt.Errorf("engine: %w: %w", ErrRequest, err)
	}
	sequence, common, err := e.sequences.acquire(ctx, r.Prompt, r.CachePrompt)
	if err != nil {
		return g.report, err
	}
	defer e.sequences.release(sequence)
	g.sequence = sequence
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
	engine   *Engine
	request  Request
	emit     func(Piece) error
	began    time.Time
	sequence int
	sampler  *sampler.Sampler
	text     *text
	report   Report
	logits   []float32 // of the next token
}

func (g *generation) run(ctx context.Context, cached int) error {
	if err := g.engine.Truncate(g.sequence, cached); err != nil {
		return err
	}
	g.report.CachedTokens = cached
	err := g.prefill(ctx, cached)
	g.report.Prefill = time.Since(g.began)
	if err != nil {
		return err
	}
	started := time.Now()
	err = g.decode(ctx)
	g.report.Decode = time.Since(started)
	return err
}

// prefill computes the prompt from token cached on.
func (g *generation) prefill(ctx context.Context, cached int) error {
	prompt := g.request.Prompt
	for _, token := range prompt {
		g.sampler.Accept(token)
	}
	for at := cached; at < len(prompt); {
		n := g.engine.chunk(len(prompt) - at)
		if err := g.feed(ctx, prompt[at:at+n], at+n == len(prompt)); err != nil {
			return err
		}
		at += n
		g.report.PromptTokens += n
	}
	return nil
}

// feed runs a pass of consecutive tokens, commits it and, if wanted, keeps the
// logits that follow.
func (g *generation) feed(ctx context.Context, tokens []int32, logits bool) error {
	p := Pass{Rows: make([]Row, len(tokens))}
	path := make([]int, len(tokens))
	for i, token := range tokens {
		p.Rows[i] = Row{Token: token, Sequence: g.sequence, Parent: i - 1}
		path[i] = i
	}
	last := len(tokens) - 1
	p.Rows[last].Logits = logits
	return g.engine.pass(ctx, p, func(r *Result) error {
		g.report.Steps++
		g.report.ValidRows += r.ValidRows
		g.report.PaddingRows += r.PaddingRows
		for lane, n := range r.Ops {
			g.report.Ops[lane] += n
		}
		// The pass belongs to nobody else yet: its logits are copied now.
		g.logits = append(g.logits[:0], r.Logits[last]...)
		return g.engine.commit(g.sequence, path)
	})
}

// decode draws tokens until the output ends.
func (g *generation) decode(ctx context.Context) error {
	r := &g.request
	for {
		if r.MaxTokens >= 0 && g.report.OutputTokens >= r.MaxTokens {
			return g.end(StopLimit)
		}
		token, err := g.draw()
		if err != nil {
			return err
		}
		if !r.IgnoreEOS && g.engine.tokenizer.IsEOG(token) {
			return g.end(StopEOS)
		}
		piece := g.text.add(g.bytes(token), g.logprob(token))
		if err := g.send(piece); err != nil {
			return err
		}
		switch {
		case g.text.stopped:
			return g.end(StopWord)
		case r.MaxTokens >= 0 && g.report.OutputTokens >= r.MaxTokens,
			g.engine.sequences.length(g.sequence) == g.engine.options.Context:
			return g.end(StopLimit)
		}
		if err := g.feed(ctx, []int32{token}, true); err != nil {
			return err
		}
	}
}

// draw takes the next token out of the logits.
func (g *generation) draw() (int32, error) {
	token, err := g.sampler.Sample(g.logits, g.request.Mask)
	if err != nil {
		return 0, fmt.Errorf("engine: %w", err)
	}
	g.sampler.Accept(token)
	if g.request.Mask != nil {
		g.request.Mask.Accept(token)
	}
	if g.report.OutputTokens == 0 {
		g.report.FirstToken = time.Since(g.began)
	}
	g.report.OutputTokens++
	g.report.Output = append(g.report.Output, token)
	return token, nil
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

func (g *generation) logprob(token int32) TokenLogprob {
	spell := func(id int32) string { return tokenText(g.engine.tokenizer.PieceSpecial(id)) }
	if g.request.Logprobs == 0 {
		return TokenLogprob{ID: token, Text: spell(token)}
	}
	return logprobs(g.logits, token, g.request.Logprobs, spell)
}
