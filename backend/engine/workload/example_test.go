package workload_test

import (
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/workload"
)

func ExamplePassTimes() {
	times := workload.NewPassTimes([]int{32, 1})
	for range 3 {
		times.Record(1, 12*time.Millisecond)
	}
	fmt.Println(times.Expected(1), times.Expected(32), times.Measured(32))
	// Output: 12ms 43ms 0s
}

func ExampleStatistics() {
	var s workload.Statistics
	s.Answered(101, 2.5, time.Second)
	fmt.Println(s.Expected())
	// Output: 101 2.5
}
