package llamaserver

import (
	"context"
	"time"
)

// parentPoll is how often the parent is looked at where nothing tells of its
// end sooner.
const parentPoll = time.Second

// WatchParent remembers the process that started this one and calls gone,
// once, when that process has ended. A host that is killed hard leaves its
// servers running, with the model in memory. What ended before the call is not
// seen, so it belongs at the start of main.
//
// The watch ends with ctx; wait returns after that, or after gone. Linux sends
// a signal (SIGUSR1) and Windows wakes the watch at once, elsewhere it takes up
// to a second.
func WatchParent(ctx context.Context, gone func()) (wait func()) {
	ended := rememberParent()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ended(ctx) {
			gone()
		}
	}()
	return func() { <-done }
}
