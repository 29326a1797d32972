package engine

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Flips is how often the likeliest token behind a text depends on how that text
// was cut into passes, as drafts cut it: token by token on the narrowest graphs,
// or many rows at once on each of those that passes with drafts use.
type Flips struct {
	// Positions is how many tokens were computed each way, Flipped at how many of
	// them some way led to another token than one by one did.
	Positions int         `json:"positions"`
	Flipped   int         `json:"flipped"`
	Widths    []WidthFlip `json:"widths"`
}

// WidthFlip compares passes of Valid tokens on graphs of Rows with those of one
// token: at how many positions the likeliest token was another one, and at how
// many all logits were the same bits.
type WidthFlip struct {
	Rows    int `json:"rows"`
	Valid   int `json:"valid"`
	Flipped int `json:"flipped"`
	Equal   int `json:"equal"`
}

// PerThousand is the flips in a thousand positions.
func (f *Flips) PerThousand() float64 {
	return 1000 * float64(f.Flipped) / float64(max(1, f.Positions))
}

// Equal tells that no bit of any logits depended on it.
func (f *Flips) Equal() bool {
	return !slices.ContainsFunc(f.Widths, func(w WidthFlip) bool { return w.Equal < f.Positions })
}

// MeasureFlips computes a text behind its first lead tokens in the ways that
// [Flips] tells, on graphs as Generate uses them; with [Options].Exact all of them
// have that one width. It takes a pass for each token and a few more, must not be
// called beside Generate, and leaves the first sequence empty. Where graphs are
// exchanged not all are there to be compared: [ErrOptions]. Where there are none
// to compare nothing can differ, and no position is computed.
func (e *Engine) MeasureFlips(ctx context.Context, text []int32, lead int) (*Flips, error) {
	if start, used := e.options.start(); start != used {
		return nil, fmt.Errorf("engine: %w: plan %s has not all graphs in the device at a time", ErrOptions, e.options.Plan)
	}
	if lead < 1 || lead >= len(text) || len(text) > e.options.Context {
		return nil, fmt.Errorf("engine: %w: %d of %d tokens in a context of %d", ErrPass, lead, len(text), e.options.Context)
	}
	least, compared := e.options.FlipWidths()
	if len(compared) == 0 {
		return &Flips{}, nil
	}
	m := flipMeter{engine: e, text: text, lead: lead, seed: maphash.MakeSeed()}
	plain, err := m.read(ctx, 1, least)
	f := &Flips{Positions: len(plain)}
	flipped := make([]bool, len(plain))
	for _, rows := range compared {
		var got []answer
		w := WidthFlip{Rows: rows, Valid: e.options.fullPass(rows)}
		if err != nil {
			continue
		}
		if got, err = m.read(ctx, w.Valid, rows); err != nil {
			continue
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
	if err == nil {
		err = e.Truncate(0, 0)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// FlipWidths are the rows of the graphs that one token at a time is computed on,
// and of those that passes with drafts may have and are compared with it,
// ascending: none where each pass has one row. Rows are resolved.
func (o Options) FlipWidths() (least int, compared []int) {
	least, compared = o.Rows[len(o.Rows)-1], slices.Clone(o.Rows)
	if _, used := o.start(); o.Exact || used != graphswap.Both {
		least = o.VerifyRows()
		compared = []int{least}
	}
	slices.Reverse(compared)
	return least, slices.DeleteFunc(compared, func(rows int) bool { return o.fullPass(rows) == 1 })
}

// fullPass is how many tokens a pass with drafts has at most on graphs of rows.
func (o Options) fullPass(rows int) int { return min(rows, o.draftRows(), maxDrafts+1) }

// flipMeter computes one text again and again.
type flipMeter struct {
	engine *Engine
	text   []int32
	lead   int
	seed   maphash.Seed
}

// answer is what stands behind a token: the likeliest next one, and a hash of
// all logits.
type answer struct {
	token int
	bits  uint64
}

// read computes the text behind the lead in passes of so many tokens on graphs of
// at least some rows.
func (m *flipMeter) read(ctx context.Context, tokens, rows int) (answers []answer, err error) {
	if err := m.engine.Truncate(0, 0); err != nil {
		return nil, err
	}
	for lead := range slices.Chunk(m.text[:m.lead], m.engine.options.Rows[0]) {
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

// pass computes and commits tokens.
func (m *flipMeter) pass(ctx context.Context, tokens []int32, rows int, wanted bool) (answers []answer, err error) {
	p, path := Pass{Width: rows}, make([]int, len(tokens))
	for i, token := range tokens {
		p.Rows, path[i] = append(p.Rows, Row{Token: token, Parent: i - 1, Logits: wanted}), i
	}
	r, err := m.engine.Forward(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, logits := range r.Logits {
		if wanted {
			answers = append(answers, m.answer(logits))
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
