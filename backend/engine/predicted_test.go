package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/graphswap"
)

// TestPromptsTakeWhatReportsForetell on a device on whose clock every call takes
// 1 ms: then only the number of runs counts, the head's among them, of which there
// are fewer where drafts gave it wide graphs.
func TestPromptsTakeWhatReportsForetell(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	for _, plan := range []string{"", graphswap.PlanG1, graphswap.PlanG2, graphswap.PlanBoth, graphswap.PlanSync, graphswap.PlanDescent} {
		for _, mode := range []draft.Mode{{}, {Lookup: true}} {
			t.Run(fmt.Sprintf("plan %q, drafts %s", plan, mode), func(t *testing.T) {
				e, _ := start(t, clocked{newDevice()}, engine.Options{
					Plan: plan, Rows: []int{12, 4}, Blocks: 2, Context: 96, FirstContext: 96, Foretell: true, Draft: mode,
				})
				for range 6 {
					n := 1 + rng.IntN(60)
					all := rng.IntN(3) > 0
					r, err := e.Generate(t.Context(), engine.Request{Prompt: story(n), MaxTokens: 3, IgnoreEOS: true, AllLogits: all}, func(engine.Piece) error { return nil })
					require.NoError(t, err)
					require.InDelta(t, r.Plan.Predicted.PrefillMs, r.Plan.Timeline.PrefillMs, 1e-6, "%d tokens, all logits %v", n, all)
				}
			})
		}
	}
}
