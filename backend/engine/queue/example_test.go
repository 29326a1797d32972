package queue_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/queue"
)

// A pass of four rows takes one row of each of two requests, and two more rows of the first
// request.
func ExampleQueue_Take() {
	q := queue.New()
	for _, tokens := range [][]int32{{1, 2, 3, 4, 5}, {6}} {
		q.Enter()
		q.Add(&queue.Item{Tokens: tokens})
	}
	for _, r := range q.Take(func([]*queue.Item) queue.Ration { return queue.Ration{Rows: 4} }) {
		fmt.Println(r.N, "of", len(r.Item.Tokens))
	}
	// Output:
	// 3 of 5
	// 1 of 1
}
