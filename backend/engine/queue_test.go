package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine/queue"
	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

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
			g.item.Sequence, g.item.Tokens = i, r.Prompt
			e.queue.Enter()
			defer e.queue.Leave()
			gate()
			errs[i] = g.compute(contexts[i])
			reports[i] = g.report
		})
		<-ready
	}
	for n := 0; n < len(requests); { // the loop waits until all items are in the queue
		e.queue.Mu.Lock()
		n = len(e.queue.Items)
		e.queue.Mu.Unlock()
		if n < len(requests) {
			<-e.queue.News
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
	require.Zero(t, e.queue.Coming)
	require.Empty(t, e.queue.Items)
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
	require.Zero(t, e.queue.Coming)
	require.Empty(t, e.queue.Items)
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
	require.Zero(t, e.queue.Coming)
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
				e.queue = queue.New()
				for range tt.between + 1 {
					e.queue.Enter()
				}
				e.queue.Add(&queue.Item{Tokens: make([]int32, tt.tokens)})
				if tt.arrive > 0 {
					time.AfterFunc(tt.arrive, func() { e.queue.Add(&queue.Item{Tokens: make([]int32, 1)}) })
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
			o := settings.Settings{Options: Options{FirstContext: first, Context: context, Slots: context}}
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
