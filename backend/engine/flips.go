package engine

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/sdnpu/sdnpu/graphswap"
)

// MeasureFlips computes a text in passes of each width that Generate uses, and compares the
// top token at each position after the first `lead` tokens: see [Flips]. MeasureFlips runs
// one pass for each token and a few more. The caller must not call Generate before
// MeasureFlips returns. After MeasureFlips, the first sequence is empty. If the plan switches
// graphs, MeasureFlips returns [ErrOptions], because not all graphs are loaded. If each pass
// has only one row, MeasureFlips computes nothing and returns zero positions.
func (e *Engine) MeasureFlips(ctx context.Context, text []int32, lead int) (*Flips, error) {
	s := e.graphs.Load().shape
	if s.Start != s.Used {
		return nil, fmt.Errorf("engine: %w: measure flips: the plan %s does not keep all graphs loaded: choose plan %s or %s",
			ErrOptions, s.Plan, graphswap.PlanResident, graphswap.PlanSeparate)
	}
	if lead < 1 || lead >= len(text) || len(text) > e.options.Context {
		return nil, fmt.Errorf("engine: %w: measure flips: the first %d of %d tokens are not compared: want 1..%d, and a context of at least %d",
			ErrPass, lead, len(text), len(text)-1, len(text))
	}
	least, compared := s.FlipWidths()
	if len(compared) == 0 {
		return &Flips{}, nil
	}
	m := flipMeter{engine: e, widest: s.Rows[0], text: text, lead: lead, seed: maphash.MakeSeed()}
	plain, err := m.read(ctx, 1, least)
	if err != nil {
		return nil, err
	}
	f := &Flips{Positions: len(plain)}
	flipped := make([]bool, len(plain))
	for _, rows := range compared {
		w := WidthFlip{Rows: rows, Valid: s.FullPass(rows)}
		got, err := m.read(ctx, w.Valid, rows)
		if err != nil {
			return nil, err
		}
		for i := range got {
			if got[i].bits == plain[i].bits {
				w.Equal++
			}
			if got[i].token != plain[i].token {
				w.Flipped++
				flipped[i] = true
			}
		}
		f.Widths = append(f.Widths, w)
	}
	for _, one := range flipped {
		if one {
			f.Flipped++
		}
	}
	return f, e.Truncate(0, 0)
}

// flipMeter computes one text several times, at different widths.
type flipMeter struct {
	engine *Engine
	widest int // widest is the largest graph width
	text   []int32
	lead   int
	seed   maphash.Seed
}

// answer holds the token with the largest logit after a position of the text, and a
// hash of all logits after that position.
type answer struct {
	token int
	bits  uint64
}

// read computes the flip meter's text and returns an answer for each position after the first
// m.lead tokens. Each pass has the number `tokens` of tokens, and runs on a graph of at least
// the width `rows`.
func (m *flipMeter) read(ctx context.Context, tokens, rows int) (answers []answer, err error) {
	if err := m.engine.Truncate(0, 0); err != nil {
		return nil, err
	}
	for lead := range slices.Chunk(m.text[:m.lead], m.widest) {
		if _, err := m.pass(ctx, lead, 0, false); err != nil {
			return nil, err
		}
	}
	for part := range slices.Chunk(m.text[m.lead:], tokens) {
		some, err := m.pass(ctx, part, rows, true)
		if err != nil {
			return nil, err
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// pass computes the given tokens in one pass and commits their rows. If `logits` is set, pass
// returns an answer for each token.
func (m *flipMeter) pass(ctx context.Context, tokens []int32, rows int, logits bool) (answers []answer, err error) {
	p, path := Pass{Width: rows}, make([]int, len(tokens))
	for i, token := range tokens {
		p.Rows, path[i] = append(p.Rows, Row{Token: token, Parent: i - 1, Logits: logits}), i
	}
	r, err := m.engine.Forward(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, row := range r.Logits {
		if logits {
			answers = append(answers, m.answer(row))
		}
	}
	return answers, m.engine.Commit(0, path)
}

func (m *flipMeter) answer(logits []float32) (a answer) {
	var hash maphash.Hash
	hash.SetSeed(m.seed)
	for i, v := range logits {
		if v > logits[a.token] {
			a.token = i
		}
		maphash.WriteComparable(&hash, math.Float32bits(v))
	}
	a.bits = hash.Sum64()
	return a
}
