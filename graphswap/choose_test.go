package graphswap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheChooserKeepsToTheGivenGraphs(t *testing.T) {
	profile, err := Device("sd8gen2")
	require.NoError(t, err)
	cost, err := profile.Cost("qwen2.5-1.5b")
	require.NoError(t, err)
	held := Config{Blocks: 3, PrefillRows: 256, DecodeRows: 32, Spare: true, Residency: OneGraph}
	widest := map[bool]int{}
	for _, inOrder := range []bool{false, true} {
		for _, prompt := range []int{20, 300, 1024, 4000} {
			for _, resident := range []Variant{Prefill, Decode} {
				before := []Variant{resident, resident, Decode}
				c := Chooser{cost, Setting{InOrder: inOrder}}
				choice, err := c.Choose(held, before, prompt, 100)
				require.NoError(t, err)
				require.Equal(t, held, choice.Config)
				require.Equal(t, before, choice.Plan.Before)
				require.NotEmpty(t, choice.Reason)
				require.NoError(t, choice.Forecast.Check(choice.Problem))
				widest[inOrder] = max(widest[inOrder], choice.Plan.Window)
				for _, name := range []string{PlanPrefillOnly, PlanDecodeOnly, PlanSwitchInOrder} {
					plan, err := choice.Problem.Make(name, false)
					require.NoError(t, err)
					line, err := Simulate(plan, choice.Problem)
					require.NoError(t, err)
					other := &Choice{Config: held, Plan: plan, Forecast: line, Problem: choice.Problem, Prompt: prompt, Cached: 100}
					require.LessOrEqual(t, c.TurnMs(choice, 128), c.TurnMs(other, 128)*(1+reverseGain), "%d tokens: %s instead of %s", prompt, choice.Plan.Name, name)
				}
			}
		}
	}
	require.Equal(t, 1, widest[true])
	require.Greater(t, widest[false], 1)
}
