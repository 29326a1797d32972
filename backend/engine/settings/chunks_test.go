package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine/workload"
)

// cheapest is a slow and simple version of PlanChunks: it tries every way to cut a
// prompt of n tokens into passes.
func cheapest(rows []int, n int) int {
	if n <= 0 {
		return 0
	}
	best := 1 << 30
	for _, w := range rows {
		best = min(best, w+workload.PassCost+cheapest(rows, n-w))
	}
	return best
}

func TestNoOtherCutIsCheaper(t *testing.T) {
	for _, rows := range [][]int{{128, 1}, {32, 8, 1}, {16}, {40, 24, 10}, {1}} {
		chunks := PlanChunks(&Shape{Rows: rows})
		for n := 1; n <= min(rows[0], 24); n++ {
			cost := 0
			for left := n; left > 0; left -= chunks[left] {
				require.Positive(t, chunks[left])
				width := 0
				for _, w := range rows { // the pass runs on the smallest width that holds the rows
					if w >= chunks[left] {
						width = w
					}
				}
				cost += width + workload.PassCost
			}
			require.Equal(t, cheapest(rows, n), cost, "%d rows on %v", n, rows)
		}
	}
}

func TestTheEndOfAPromptTakesTheCheaperWidth(t *testing.T) {
	chunks := PlanChunks(&Shape{Rows: []int{128, 1}})
	require.Equal(t, 1, chunks[11], "eleven single passes: 132")
	require.Equal(t, 12, chunks[12], "twelve would cost 144, one pass of 128 rows 139")
	require.Equal(t, 128, chunks[128])
}
