package graphswap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCurrentPlanKeepsNewValuesAndReplacesOldOnes(t *testing.T) {
	for _, name := range []string{
		PlanAuto, PlanResident, PlanSeparate, PlanSwitch, PlanSwitch + "+spare", PlanSwitch + "-spare",
		PlanPrefillOnly, PlanDecodeOnly, PlanLibrary, "clairvoyant", "clairvoyant+spare", "",
	} {
		require.Equal(t, name, CurrentPlan(name))
	}
	for old := range oldPlans {
		plan := CurrentPlan(old)
		require.NotContains(t, oldPlans, plan)
		if plan == PlanSwitch || plan == PlanLibrary {
			require.Equal(t, PlanSwitch+"+spare", CurrentPlan(old+"+spare"))
		} else {
			require.Equal(t, old+"+spare", CurrentPlan(old+"+spare"), "nothing is switched, so there is no spare slot")
		}
	}
}
