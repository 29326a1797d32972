package llamaserver

import (
	"context"
	"time"
)

// parentPoll is the time between two checks whether the parent process still exists, if
// the system does not report its exit earlier.
const parentPoll = time.Second

// WatchParent calls the function gone once when the parent of this process has exited.
// If Ollama is killed, its servers keep running, with the model in
// memory. Call WatchParent at the start of main: it does not notice a parent that has
// exited earlier.
//
// WatchParent stops watching when ctx is done. wait returns after that, or after gone
// has returned. Linux (with SIGUSR1) and Windows report the parent's exit immediately;
// other systems need up to a second.
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
