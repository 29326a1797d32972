package graphswap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPlanChooserKeepsToWhatIsHeld, and its plans to the order that lets other
// requests in, where that is asked for.
func TestAPlanChooserKeepsToWhatIsHeld(t *testing.T) {
	profile, err := Device("sd8gen2")
	require.NoError(t, err)
	cost, err := profile.Cost("qwen2.5-1.5b")
	require.NoError(t, err)
	held := Config{Blocks: 3, Rows1: 256, Rows2: 32, Spare: true, Residency: OneGraph}
	widest := map[bool]int{}
	for _, inOrder := range []bool{false, true} {
		for _, prompt := range []int{20, 300, 1024, 4000} {
			for _, resident := range []Graph{G1, G2} {
				before := []Graph{resident, resident, G2}
				c := NewPlanChooser(cost, Setting{InOrder: inOrder}, held, before)
				choice, err := c.Choose(prompt, 100)
				require.NoError(t, err)
				require.Equal(t, held, choice.Config)
				require.Equal(t, before, choice.Plan.Before)
				require.NotEmpty(t, choice.Reason)
				require.NoError(t, choice.Line.Check(choice.Problem))
				widest[inOrder] = max(widest[inOrder], choice.Plan.Window)
				for _, name := range []string{PlanG1, PlanG2, PlanDescentInOrder} {
					plan, err := choice.Problem.Make(name, false)
					require.NoError(t, err)
					line, err := Simulate(plan, choice.Problem)
					require.NoError(t, err)
					other := &Choice{Config: held, Plan: plan, Line: line, Problem: choice.Problem, prompt: prompt, cached: 100}
					require.LessOrEqual(t, c.turn(choice, 128), c.turn(other, 128)*(1+reverseGain), "%d tokens: %s instead of %s", prompt, choice.Plan.Name, name)
				}
			}
		}
	}
	require.Equal(t, 1, widest[true])
	require.Greater(t, widest[false], 1)
}
