package engine_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// exchanging is an engine that keeps one graph of each block, by known costs,
// and one that needs no plans.
func exchanging(t *testing.T, o engine.Options) (e, plain *engine.Engine, dev *device) {
	dev = newDevice()
	dev.apart = true
	o.Plan, o.Rows, o.Blocks, o.Context, o.FirstContext, o.Costs = engine.PlanAuto, []int{12, 4}, 2, 240, 240, knownCosts(narrow)
	e, _ = start(t, dev, o)
	plain, _ = start(t, newDevice(), engine.Options{Rows: []int{12, 4}, Blocks: 1, Context: 240, FirstContext: 240})
	return e, plain, dev
}

func both(g graphswap.Graph) []graphswap.Graph { return []graphswap.Graph{g, g} }

// TestWideGraphsComeBackWhileNobodyAsks where prompts are long, and narrow ones
// stay below break-even. The text does not depend on either.
func TestWideGraphsComeBackWhileNobodyAsks(t *testing.T) {
	e, plain, _ := exchanging(t, engine.Options{})
	e.SwitchBack()
	require.Equal(t, both(graphswap.G1), e.Residency(), "before the first prompt")
	same := func(n int) engine.Report {
		t.Helper()
		want, got := generate(t, plain, story(n), 12), generate(t, e, story(n), 12)
		require.Equal(t, want.Output, got.Output)
		require.Equal(t, readCache(t, plain), readCache(t, e))
		e.WaitForLoads()
		return got
	}
	for i := range 3 {
		got := same(96)
		require.Len(t, got.Plan.Timeline.Plan.Loads, 2, "prompt %d finds wide graphs", i)
		require.Equal(t, both(graphswap.G2), e.Residency())
		e.SwitchBack()
		e.WaitForLoads()
		require.Equal(t, both(graphswap.G1), e.Residency())
		e.SwitchBack()
		done, err := e.PlanDone(t.Context())
		require.NoError(t, err)
		require.Equal(t, got.Plan.Name, done.Name, "what idle time did is no request's")
	}
	for range 9 {
		same(4)
	}
	now := e.Residency()
	require.Equal(t, both(graphswap.G2), now)
	e.SwitchBack()
	e.WaitForLoads()
	require.Equal(t, now, e.Residency(), "of twelve prompts nine were short")
}

// TestARequestEndsTheWayBack at the next block: it waits for the load that goes
// on, and its plan begins with what that left.
func TestARequestEndsTheWayBack(t *testing.T) {
	e, plain, dev := exchanging(t, engine.Options{})
	want := generate(t, plain, story(96), 12)
	require.Equal(t, want.Output, generate(t, e, story(96), 12).Output)
	e.WaitForLoads()
	begun, goOn := make(chan struct{}), make(chan struct{})
	var loads atomic.Int32
	dev.onLoad = func() error {
		if loads.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return nil
	}
	e.SwitchBack()
	<-begun
	before := e.Entered()
	got := make(chan engine.Report, 1)
	go func() {
		r, err := e.Generate(t.Context(), engine.Request{Prompt: story(96), MaxTokens: 12, IgnoreEOS: true}, func(engine.Piece) error { return nil })
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	for e.Entered() == before {
		runtime.Gosched()
	}
	close(goOn)
	r := <-got
	require.Equal(t, []graphswap.Graph{graphswap.G1, graphswap.G2}, r.Plan.Timeline.Plan.Before)
	require.Equal(t, want.Output, r.Output)
	require.Equal(t, readCache(t, plain), readCache(t, e))
}

// TestIdleTimeBeginsSomeTimeAfterTheLastRequest, and ends with the engine.
func TestIdleTimeBeginsSomeTimeAfterTheLastRequest(t *testing.T) {
	e, _, dev := exchanging(t, engine.Options{IdleSwitch: time.Millisecond})
	goroutines := runtime.NumGoroutine()
	generate(t, e, story(96), 12)
	for late := time.Now().Add(5 * time.Minute); !slices.Equal(e.Residency(), both(graphswap.G1)); runtime.Gosched() {
		require.True(t, time.Now().Before(late), "%v", e.Residency())
	}
	generate(t, e, story(96), 12)
	require.NoError(t, e.Close())
	require.Zero(t, dev.programs.Load())
	e.SwitchBack()
	require.Zero(t, dev.programs.Load(), "a timer that was late")
	for late := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		require.True(t, time.Now().Before(late))
	}
}
