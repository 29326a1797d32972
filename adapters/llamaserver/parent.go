package llamaserver

import (
	"context"
	"time"
)

// parentPoll is the time between two checks of the parent, if the system does not
// report its exit earlier.
const parentPoll = time.Second

// WatchParent calls gone once when the parent of this process has exited. A host
// that is killed leaves its servers running, with the model in memory. Call
// WatchParent at the start of main: a parent that exited earlier is not noticed.
//
// The watch ends when ctx is done. wait returns after that, or after gone has
// returned. Linux (with SIGUSR1) and Windows report the exit immediately; other
// systems need up to a second.
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
