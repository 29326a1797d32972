package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// saboteur makes one call of the device fail, after a number of loads or runs.
type saboteur struct {
	device *device
	kind   string
	after  atomic.Int64
	cancel context.CancelFunc
}

// faults are the failures that can happen while graphs are switched.
var faults = []string{"none", "load", "loads", "image", "run", "restart while running", "restart while loading", "cancel"}

func (s *saboteur) due() bool { return s.after.Add(-1) == 0 }

func (s *saboteur) arm(rng *rand.Rand, cancel context.CancelFunc) {
	s.kind, s.cancel = faults[rng.IntN(len(faults))], cancel
	s.after.Store(1 + rng.Int64N(6))
	if s.kind == "run" || s.kind == "cancel" || s.kind == "restart while running" {
		s.after.Store(1 + rng.Int64N(40))
	}
}

func (s *saboteur) onLoad() error {
	switch s.kind {
	case "load":
		if s.due() {
			return fmt.Errorf("%w: %w", errFault, backend.ErrNoMemory)
		}
	case "loads": // first the load of the new graph fails, and then the load of the old graph
		if n := s.after.Add(-1); n == 0 || n == -1 {
			return errFault
		}
	case "image":
		if s.due() {
			return fmt.Errorf("%w: %w", errFault, backend.ErrImage)
		}
	case "restart while loading":
		if s.due() {
			s.device.restarts.Add(1)
			return fmt.Errorf("%w: %w", errFault, backend.ErrRestarted)
		}
	}
	return nil
}

func (s *saboteur) onRun(string) error {
	switch s.kind {
	case "run":
		if s.due() {
			return errFault
		}
	case "restart while running":
		if s.due() {
			s.device.restarts.Add(1)
		}
	case "cancel":
		if s.due() {
			s.cancel()
		}
	}
	return nil
}

// soak is an additional time for which the test runs.
func soak(t *testing.T) time.Time {
	d, err := time.ParseDuration(os.Getenv("SDNPU_SOAK"))
	if err != nil {
		require.Empty(t, os.Getenv("SDNPU_SOAK"))
	}
	return time.Now().Add(d)
}

func TestARequestAfterAnyFailureIsRight(t *testing.T) {
	const prefillRows, decodeRows, blocks = 12, 4, 3
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{prefillRows, decodeRows}, Blocks: 1, Context: 96, FirstContext: 48})
	dev := newDevice()
	e, _ := start(t, dev, engine.Options{Plan: graphswap.PlanSwitch, Rows: []int{prefillRows, decodeRows}, Blocks: blocks, Context: 96, FirstContext: 48})
	seed := uint64(time.Now().UnixNano())
	if os.Getenv("SDNPU_SOAK") == "" {
		seed = 11
	}
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	e.PlanWith(randomSwitching(rng, blocks, prefillRows, decodeRows))
	s := &saboteur{device: dev, kind: "none"}
	dev.onLoad, dev.onRun = s.onLoad, s.onRun
	before, end := runtime.NumGoroutine(), soak(t)
	happened := make(map[string]int)
	for i := 0; i < 60 || time.Now().Before(end); i++ {
		prompt := story(1 + rng.IntN(80))
		ctx, cancel := context.WithCancel(t.Context())
		s.arm(rng, cancel)
		_, err := e.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: 8, IgnoreEOS: true}, func(engine.Piece) error { return nil })
		cancel()
		if err != nil {
			happened[s.kind]++
			require.True(t, errors.Is(err, errFault) || errors.Is(err, context.Canceled) || errors.Is(err, backend.ErrRestarted) || e.NotResident(err), "%v", err)
		}
		e.WaitForLoads()
		require.Zero(t, e.DirtySlots(), "request %d, after %v", i, err)
		s.kind = "none"
		next := story(1 + rng.IntN(80))
		want, got := generate(t, plain, next, 8), generate(t, e, next, 8)
		require.Equal(t, want.Output, got.Output, "request %d, after %v", i, err)
		require.Equal(t, readCache(t, plain), readCache(t, e), "request %d, after %v", i, err)
		e.WaitForLoads()
		graphs := 0
		for _, g := range e.Residency() {
			require.NotEqual(t, graphswap.None, g)
			graphs += int(g&1) + int(g>>1)
		}
		require.EqualValues(t, graphs+1, dev.programs.Load(), "programs of loaded graphs and the head")
	}
	t.Log("requests that failed, by fault:", happened, "and restarts:", dev.restarts.Load())
	for _, kind := range []string{"run", "cancel"} {
		require.Positive(t, happened[kind], kind)
	}
	require.Positive(t, dev.restarts.Load(), "restarts")
	require.NoError(t, e.Close())
	require.Zero(t, dev.programs.Load())
	require.Zero(t, dev.buffers.Load())
	for late := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(late), "%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}
