package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

// TestEveryRequestGetsItsTurn plays random items, some of which always return to the
// queue, and checks the rule: the first item has a row in each pass, and a pass has as
// many rows as chunk returns.
func TestEveryRequestGetsItsTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		widths := [][]int{{128, 1}, {128, 4, 1}, {32, 8, 1}, {1}, {16}}[rng.IntN(5)]
		chunks := settings.PlanChunks(&settings.Shape{Rows: widths})
		chunk := func(n int) int { return chunks[min(n, widths[0])] }
		q := newRequestQueue()
		waited := map[*workItem]int{}
		var items []*workItem
		for i := range 1 + rng.IntN(6) {
			w := &workItem{sequence: i, tokens: make([]int32, 1+rng.IntN(1+rng.IntN(300)))}
			items = append(items, w)
			q.enter()
			q.add(w)
		}
		for range 100 {
			waiting, first, want := 0, q.items[0], chunk(q.waiting())
			for _, w := range items {
				waiting += len(w.tokens)
			}
			require.Equal(t, waiting, q.waiting())
			rows := q.take(func([]*workItem) ration { return ration{rows: chunk(q.waiting())} })
			require.Equal(t, first, rows[0].item)
			taken := map[*workItem]bool{}
			for _, s := range rows {
				require.Positive(t, s.n)
				require.LessOrEqual(t, s.n, len(s.item.tokens))
				require.False(t, taken[s.item])
				taken[s.item] = true
				want -= s.n
			}
			require.Zero(t, want)
			for _, w := range items {
				if waited[w]++; taken[w] {
					waited[w] = 0
				}
				require.Less(t, waited[w], len(items), "each item has a turn before one has two")
			}
			turn := q.reserveTurns(len(rows))
			for _, i := range rng.Perm(len(rows)) { // requests settle in any order
				w := rows[i].item
				// the item's request draws the next token
				if w.tokens = w.tokens[rows[i].n:]; len(w.tokens) == 0 {
					w.tokens = make([]int32, 1)
				}
				q.putBack(w, turn+uint64(i))
			}
			for i, s := range rows {
				require.Equal(t, s.item, q.items[len(q.items)-len(rows)+i], "items keep their order")
			}
		}
	}
}

func TestItemsAddedDuringAPassComeBeforeThoseThatReturn(t *testing.T) {
	q := newRequestQueue()
	returning, during, after := &workItem{}, &workItem{}, &workItem{}
	q.add(returning)
	q.takeItem(returning)
	q.add(during)
	turn := q.reserveTurns(1)
	q.add(after)
	q.putBack(returning, turn)
	require.Equal(t, []*workItem{during, returning, after}, q.items)
}

// openShared returns an engine whose widths let three requests share passes.
func openShared(t *testing.T) *Engine {
	t.Helper()
	return openFile(t, recorded.File(t, "f32"), Options{Rows: []int{16, 3, 1}, Context: 64, Sequences: 3})
}

// together computes prompts that are all in the queue before the first pass begins.
func together(t *testing.T, e *Engine, contexts []context.Context, requests []Request, before func()) ([]Report, []error) {
	t.Helper()
	reports, errs := make([]Report, len(requests)), make([]error, len(requests))
	ready := make(chan struct{})
	gate := func() { ready <- struct{}{} }
	var group sync.WaitGroup
	e.deviceLock <- struct{}{}
	for i, r := range requests {
		group.Go(func() {
			g := e.newGeneration(r, func(Piece) error { return nil })
			g.sampler, _ = sampler.New(r.Sampling)
			g.item.sequence, g.item.tokens = i, r.Prompt
			e.queue.enter()
			defer e.queue.leave()
			gate()
			errs[i] = g.compute(contexts[i])
			reports[i] = g.report
		})
		<-ready
	}
	for n := 0; n < len(requests); { // waits until all items are in the queue
		e.queue.mu.Lock()
		n = len(e.queue.items)
		e.queue.mu.Unlock()
		if n < len(requests) {
			<-e.queue.news
		}
	}
	if before != nil {
		before()
	}
	e.unlock()
	group.Wait()
	return reports, errs
}

func TestWaitingRequestsShareAPass(t *testing.T) {
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
	require.Zero(t, e.queue.coming)
	require.Empty(t, e.queue.items)
}

func TestACancelledRequestLeavesOthersTheirPass(t *testing.T) {
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
	require.Zero(t, e.queue.coming)
	require.Empty(t, e.queue.items)
}

func TestAFailedPassFailsEachRequestThatSharesIt(t *testing.T) {
	e := openShared(t)
	requests := []Request{{Prompt: []int32{1}}, {Prompt: []int32{-5}}, {Prompt: []int32{7}}}
	all := []context.Context{t.Context(), t.Context(), t.Context()}
	_, errs := together(t, e, all, requests, nil)
	for i, err := range errs {
		require.ErrorIs(t, err, ErrPass)
		require.Empty(t, e.Tokens(i))
	}
	require.Zero(t, e.queue.coming)
}

func TestAPassWaitsBrieflyForRequestsThatWillShareIt(t *testing.T) {
	e := withoutGraphs(128, 4, 1)
	e.shape().HostTimes = passTimes(map[int]time.Duration{4: 8 * patience * time.Millisecond, 1: time.Hour, 128: time.Hour}, e.shape().Rows)
	for _, tt := range []struct {
		name            string
		tokens, between int
		arrive          time.Duration
		want            time.Duration
	}{
		{"no other request", 1, 0, 0, 0},
		{"a full pass", 128, 3, 0, 0},
		{"one request comes", 1, 1, 5 * time.Millisecond, 5 * time.Millisecond},
		{"one request stays away", 1, 1, 0, 8 * time.Millisecond},
		{"one of two comes", 1, 2, 5 * time.Millisecond, 8 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e.queue = newRequestQueue()
				for range tt.between + 1 {
					e.queue.enter()
				}
				e.queue.add(&workItem{tokens: make([]int32, tt.tokens)})
				if tt.arrive > 0 {
					time.AfterFunc(tt.arrive, func() { e.queue.add(&workItem{tokens: make([]int32, 1)}) })
				}
				begin := time.Now()
				e.waitForMore()
				require.Equal(t, tt.want, time.Since(begin))
			})
		})
	}
}

func TestContextTiersDoubleUpToTheContext(t *testing.T) {
	for first := 1; first <= 20; first++ {
		for context := first; context <= 70; context++ {
			o := settings.Settings{Options: Options{FirstContext: first, Context: context}}
			want := first
			for n := 0; n <= context; n++ {
				if n > want {
					want = min(2*want, context)
				}
				require.Equal(t, want, o.ContextFor(n), "%d tokens, %d to %d", n, first, context)
			}
		}
	}
}
