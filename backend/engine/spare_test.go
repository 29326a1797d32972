package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// TestARefusedSpareSlotFailsNoPlan: if the device has no memory for a spare graph slot, plans
// load their graphs without one, and no text changes.
func TestARefusedSpareSlotFailsNoPlan(t *testing.T) {
	const prefillRows, decodeRows, blocks = 12, 4, 3
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{prefillRows, decodeRows}, Blocks: 1, Context: 96, FirstContext: 96})
	dev := newDevice()
	e, _ := start(t, dev, engine.Options{Plan: graphswap.PlanSwitch, Rows: []int{prefillRows, decodeRows}, Blocks: blocks, Context: 96, FirstContext: 96})
	room, refused := dev.programs.Load(), 0
	dev.onLoad = func() error {
		if dev.programs.Load() >= room {
			refused++
			return fmt.Errorf("float: %w", backend.ErrNoMemory)
		}
		return nil
	}
	rng := rand.New(rand.NewPCG(3, 14))
	e.PlanWith(randomSwitching(rng, blocks, prefillRows, decodeRows))
	for n := 1; n < 60; n += 4 {
		want, got := generate(t, plain, story(n), 9), generate(t, e, story(n), 9)
		require.Equal(t, want.Output, got.Output)
		e.WaitForLoads()
		require.Equal(t, got.Plan.Timeline.Plan.After, e.Residency(), "%d tokens", n)
		require.Equal(t, blocks, got.Plan.Switches)
		require.Equal(t, readCache(t, plain), readCache(t, e))
	}
	require.Positive(t, refused)
	require.Equal(t, room, dev.programs.Load())
}
