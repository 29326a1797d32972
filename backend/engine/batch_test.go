package engine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// TestEveryJobGetsItsTurn plays random jobs, some of which come back for ever,
// against the rule: the first in line has a row in each pass, and a pass has as
// many rows as the chunks say.
func TestEveryJobGetsItsTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rows := [][]int{{128, 1}, {128, 4, 1}, {32, 8, 1}, {1}, {16}}[rng.IntN(5)]
		chunks := planChunks(Options{Rows: rows})
		chunk := func(n int) int { return chunks[min(n, rows[0])] }
		l := newLine()
		waited := map[*job]int{}
		var jobs []*job
		for i := range 1 + rng.IntN(6) {
			j := &job{sequence: i, tokens: make([]int32, 1+rng.IntN(1+rng.IntN(300))), done: make(chan struct{})}
			jobs = append(jobs, j)
			l.enter()
			l.add(j)
		}
		for range 100 {
			waiting, first, want := 0, l.jobs[0], chunk(l.waiting())
			for _, j := range jobs {
				waiting += len(j.tokens)
			}
			require.Equal(t, waiting, l.waiting())
			shares := l.take(chunk)
			require.Equal(t, first, shares[0].job)
			taken := map[*job]bool{}
			for _, s := range shares {
				require.Positive(t, s.n)
				require.LessOrEqual(t, s.n, len(s.job.tokens))
				require.False(t, taken[s.job])
				taken[s.job] = true
				want -= s.n
			}
			require.Zero(t, want)
			for _, j := range jobs {
				if waited[j]++; taken[j] {
					waited[j] = 0
				}
				require.Less(t, waited[j], len(jobs), "a turn comes to each before it comes to one again")
			}
			for _, s := range shares {
				if s.job.tokens = s.job.tokens[s.n:]; len(s.job.tokens) == 0 { // its generation brings the next token
					s.job.tokens = make([]int32, 1)
				}
				require.True(t, l.give(s.job))
			}
		}
	}
}

// openShared is an engine whose widths let three generations share passes.
func openShared(t *testing.T) *Engine {
	t.Helper()
	f, err := gguf.Open(filepath.Join("..", "..", "integration_test", "models", "stories260K-f32.gguf"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	recipe, err := model.FindRecipe("f32")
	require.NoError(t, err)
	e, err := New(t.Context(), cpu.New(cpu.Options{}), m, tok, Options{Recipe: recipe, Rows: []int{16, 3, 1}, Context: 64, Sequences: 3})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// together runs generations that are all in line before the first pass begins.
func together(t *testing.T, e *Engine, contexts []context.Context, requests []Request, before func()) ([]Report, []error) {
	t.Helper()
	reports, errs := make([]Report, len(requests)), make([]error, len(requests))
	ready := make(chan struct{})
	gate := func() { ready <- struct{}{} }
	var group sync.WaitGroup
	e.lane <- struct{}{}
	for i, r := range requests {
		group.Go(func() {
			g := &generation{engine: e, request: r, emit: func(Piece) error { return nil }, began: time.Now(), text: newText(nil)}
			g.job.sequence, g.job.report = i, &reports[i]
			g.job.verify = func(verdict) ([]int32, error) { return nil, nil }
			e.line.enter()
			defer e.line.leave()
			gate()
			errs[i] = g.feed(contexts[i], 0, r.Prompt)
		})
		<-ready
	}
	for n := 0; n < len(requests); { // they have little left to do
		e.line.mu.Lock()
		n = len(e.line.jobs)
		e.line.mu.Unlock()
		if n < len(requests) {
			<-e.line.news
		}
	}
	if before != nil {
		before()
	}
	e.unlock()
	group.Wait()
	return reports, errs
}

func TestWaitingGenerationsShareAPass(t *testing.T) {
	e := openShared(t)
	requests := []Request{{Prompt: []int32{1}}, {Prompt: []int32{5}}, {Prompt: []int32{1, 403, 407, 261, 378, 432}}}
	all := []context.Context{t.Context(), t.Context(), t.Context()}
	reports, errs := together(t, e, all, requests, nil)
	for i, r := range reports {
		require.NoError(t, errs[i])
		require.Equal(t, 1, r.Steps)
		require.Equal(t, len(requests[i].Prompt), r.ValidRows)
		require.Equal(t, 8, r.ValidRows+r.SharedRows)
		require.Equal(t, 8, r.PaddingRows)
		require.Equal(t, requests[i].Prompt, e.Tokens(i))
	}
	require.Zero(t, e.line.between)
	require.Empty(t, e.line.jobs)
}

func TestWhoLeavesTheLineLeavesTheOthersTheirPass(t *testing.T) {
	e := openShared(t)
	ctx, cancel := context.WithCancel(t.Context())
	requests := []Request{{Prompt: []int32{1}}, {Prompt: []int32{5}}, {Prompt: []int32{7}}}
	reports, errs := together(t, e, []context.Context{ctx, t.Context(), t.Context()}, requests, cancel)
	require.ErrorIs(t, errs[0], context.Canceled)
	for _, i := range []int{1, 2} {
		require.NoError(t, errs[i])
		require.Equal(t, 1, reports[i].ValidRows)
		require.Equal(t, requests[i].Prompt, e.Tokens(i))
	}
	require.Zero(t, e.line.between)
	require.Empty(t, e.line.jobs)
}

func TestAFailedPassFailsAllThatSharedIt(t *testing.T) {
	e := openShared(t)
	requests := []Request{{Prompt: []int32{1}}, {Prompt: []int32{-5}}, {Prompt: []int32{7}}}
	all := []context.Context{t.Context(), t.Context(), t.Context()}
	_, errs := together(t, e, all, requests, nil)
	for i, err := range errs {
		require.ErrorIs(t, err, ErrPass)
		require.Empty(t, e.Tokens(i))
	}
	require.Zero(t, e.line.between)
}

func TestALingeringPassWaitsForWhoComesButNotForLong(t *testing.T) {
	e := &Engine{options: Options{Rows: []int{128, 4, 1}}, chunks: planChunks(Options{Rows: []int{128, 4, 1}}), line: newLine()}
	e.took = map[int]time.Duration{4: 8 * patience * time.Millisecond, 1: time.Hour, 128: time.Hour}
	for _, tt := range []struct {
		name            string
		tokens, between int
		arrive          time.Duration
		want            time.Duration
	}{
		{"nobody else", 1, 0, 0, 0},
		{"a full pass", 128, 3, 0, 0},
		{"one comes", 1, 1, 5 * time.Millisecond, 5 * time.Millisecond},
		{"one stays away", 1, 1, 0, 8 * time.Millisecond},
		{"one of two comes", 1, 2, 5 * time.Millisecond, 8 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e.line = newLine()
				for range tt.between + 1 {
					e.line.enter()
				}
				e.line.add(&job{tokens: make([]int32, tt.tokens)})
				if tt.arrive > 0 {
					time.AfterFunc(tt.arrive, func() { e.line.add(&job{tokens: make([]int32, 1)}) })
				}
				begin := time.Now()
				e.linger()
				require.Equal(t, tt.want, time.Since(begin))
			})
		})
	}
}

func TestTheSeriesOfContextsDoublesAndEndsWithTheContext(t *testing.T) {
	for first := 1; first <= 20; first++ {
		for context := first; context <= 70; context++ {
			o := Options{FirstContext: first, Context: context}
			want := first
			for n := 0; n <= context; n++ {
				if n > want {
					want = min(2*want, context)
				}
				require.Equal(t, want, o.contextFor(n), "%d tokens, %d to %d", n, first, context)
			}
		}
	}
}
