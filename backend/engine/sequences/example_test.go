package sequences_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/sequences"
)

// The second request continues the conversation of the first one.
func Example() {
	pool := sequences.NewPool(2)
	first, _ := pool.Acquire(context.Background(), []int32{1, 2, 3}, true)
	pool.Extend(first.Sequence, []int32{1, 2, 3, 4})
	pool.Release(first.Sequence)
	fmt.Println(first.Sequence, first.Held)

	second, _ := pool.Acquire(context.Background(), []int32{1, 2, 3, 4, 5}, true)
	fmt.Println(second.Sequence, second.Held)
	// Output:
	// 0 0
	// 0 4
}
