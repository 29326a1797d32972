package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestAutoPermitsWhatPlansRefuse: rows that no part of a pass can begin at leave it
// no plan, and a named plan as it is.
func TestAutoPermitsWhatPlansRefuse(t *testing.T) {
	for _, test := range []struct {
		name, plan string
		rows       []int
		rowBytes   int
		want, says string
	}{
		{"a pair", PlanAuto, []int{16, 8}, 96, PlanAuto, ""},
		{"rows between", PlanAuto, []int{16, 1}, 96, "", "1 rows of 96 bytes are no multiple of 64"},
		{"no multiple", PlanAuto, []int{12, 8}, 96, "", "widths [12 8] are none that plans exchange"},
		{"no width", PlanAuto, []int{16, 0}, 96, "", "widths [16 0] are none that plans exchange"},
		{"named", graphswap.PlanGreedy, []int{16, 1}, 96, graphswap.PlanGreedy, ""},
		{"none", "", []int{16, 1}, 96, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Options{Plan: test.plan, Rows: test.rows}.permit(test.rowBytes)
			require.Equal(t, test.want, o.Plan)
			require.Equal(t, test.says == "", o.stays == "")
			require.Contains(t, o.stays, test.says)
		})
	}
}
