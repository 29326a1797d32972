package outoforder_test

import (
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// In the example, three chunks of a prompt go through two layers. While the CPU computes
// the attention of one chunk, the NPU computes projections of another.
func ExampleProblem_Schedule() {
	const ms = time.Millisecond
	layer := []outoforder.Stage{
		{Name: "qkv", Lane: graphswap.NPU, Times: []time.Duration{4 * ms, 4 * ms, 4 * ms}},
		{Name: "attention", Lane: graphswap.CPU, After: []int{0}, Past: true, Times: []time.Duration{2 * ms, 3 * ms, 4 * ms}},
		{Name: "ffn", Lane: graphswap.NPU, After: []int{1}, Times: []time.Duration{6 * ms, 6 * ms, 6 * ms}},
	}
	p, err := outoforder.New(outoforder.Repeat(layer, 2), outoforder.DefaultWindow)
	if err != nil {
		panic(err)
	}
	for _, policy := range []outoforder.Policy{outoforder.InOrder, outoforder.FeedNPU} {
		s := p.Schedule(policy)
		fmt.Printf("%v: %v, NPU idle for %.0f %%\n", policy, s.Makespan, 100*s.Idle)
	}
	fmt.Println("lower bound:", p.Bound())
	// Output:
	// in_order: 78ms, NPU idle for 23 %
	// feed_npu: 60ms, NPU idle for 0 %
	// lower bound: 60ms
}
