package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// TestAutoAcceptsWidthsThatPlansReject checks that auto then keeps every graph, and
// that a named plan stays as it is.
func TestAutoAcceptsWidthsThatPlansReject(t *testing.T) {
	recipe, err := model.FindRecipe("f32")
	require.NoError(t, err)
	for _, test := range []struct {
		name, plan string
		rows       []int
		want, says string
		fails      bool
	}{
		{"a pair", PlanAuto, []int{16, 8}, PlanAuto, "", false},
		{"unaligned rows", PlanAuto, []int{16, 1}, "", "1 rows of 96 bytes: want a multiple of 64", false},
		{"no multiple", PlanAuto, []int{12, 8}, "", "no plan switches graphs of widths [12 8]", false},
		{"no width", PlanAuto, []int{16, 0}, "", "no plan switches graphs of widths [16 0]", true},
		{"named", graphswap.PlanSwitch, []int{16, 1}, graphswap.PlanSwitch, "", true},
		{"none", "", []int{16, 1}, "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := model.Config{Layers: 1, ContextLength: 64, Hidden: 24, Vocab: 8}
			o, err := Options{Plan: test.plan, Rows: test.rows, Recipe: recipe, Blocks: 1}.resolve(c, nil)
			require.Equal(t, test.fails, err != nil, "%v", err)
			require.Equal(t, test.want, o.Plan)
			require.Equal(t, test.says == "", o.widthsReason == "")
			require.Contains(t, o.widthsReason, test.says)
		})
	}
}

// TestResolvedOptionsFollowThePlan checks what is loaded and in how many images.
func TestResolvedOptionsFollowThePlan(t *testing.T) {
	c := model.Config{Layers: 4, ContextLength: 64, Hidden: 64, Vocab: 8}
	for _, test := range []struct {
		plan             string
		shares, swaps    bool
		want             string
		start, used      graphswap.Variant
		separate, device bool
	}{
		{PlanAuto, true, false, graphswap.PlanResident, graphswap.Both, graphswap.Both, false, false},
		{PlanAuto, false, false, PlanAuto, graphswap.Prefill, graphswap.Both, true, false},
		{"", false, false, "", graphswap.Both, graphswap.Both, false, false},
		{graphswap.PlanSeparate, true, false, graphswap.PlanSeparate, graphswap.Both, graphswap.Both, true, false},
		{graphswap.PlanSwitch, true, false, graphswap.PlanSwitch, graphswap.Prefill, graphswap.Both, true, false},
		{graphswap.PlanDecodeOnly, true, false, graphswap.PlanDecodeOnly, graphswap.Decode, graphswap.Decode, true, false},
		{graphswap.PlanLibrary, true, true, graphswap.PlanSeparate, graphswap.Both, graphswap.Both, false, true},
		{graphswap.PlanLibrary, true, false, graphswap.PlanSwitch, graphswap.Prefill, graphswap.Both, true, false},
	} {
		r, err := Options{Plan: test.plan}.resolve(c, &backend.Capabilities{SharesConstants: test.shares, SwapsGraphs: test.swaps})
		require.NoError(t, err)
		require.NoError(t, r.deviceErr)
		require.Equal(t, test.want, r.Plan)
		require.Equal(t, [2]graphswap.Variant{test.start, test.used}, [2]graphswap.Variant{r.start, r.used}, test.plan)
		require.Equal(t, [2]bool{test.separate, test.device}, [2]bool{r.separate, r.deviceSwitches}, test.plan)
	}
	r, err := Options{Plan: graphswap.PlanResident}.resolve(c, &backend.Capabilities{Name: "phone"})
	require.NoError(t, err, "a preview describes it nevertheless")
	require.ErrorIs(t, r.deviceErr, ErrOptions)
	r, err = Options{Plan: graphswap.PlanSwitch, Exact: true}.resolve(c, &backend.Capabilities{})
	require.NoError(t, err)
	require.ErrorIs(t, r.deviceErr, ErrOptions)
}
