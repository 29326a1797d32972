package residency_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/graphswap"
)

func ExampleCosts() {
	given := &graphswap.Cost{
		Profile: &graphswap.Profile{Kind: graphswap.Measured},
		Model: graphswap.Model{Blocks: []graphswap.MeasuredGraph{
			{Layers: 2, Widths: map[int]graphswap.MeasuredWidth{32: {LoadMs: 100, RunMs: 20}}},
		}},
	}
	costs := residency.NewCosts(given, []int{32}, []int{2})
	forecast := &graphswap.Timeline{NPUBusyMs: 20}
	costs.Learn(&graphswap.Timeline{NPUBusyMs: 30}, forecast) // the NPU took 30 ms, and the forecast was 20 ms
	learned := costs.Model("phone", residency.ModelSizes{Layers: 2})
	fmt.Printf("%.0f ms\n", learned.Model.Blocks[0].Widths[32].RunMs)
	// Output: 23 ms
}
