package parent_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/parent"
)

func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	wait := parent.Watch(ctx, func() { fmt.Println("the parent has exited") })
	cancel() // cancel ends the watch, because the work of this process is done
	wait()
	fmt.Println("no longer watching")
	// Output: no longer watching
}
