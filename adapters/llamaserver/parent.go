package llamaserver

import (
	"context"
	"time"
)

// parentPoll is how often the parent is looked at where nothing tells of its
// end sooner.
const parentPoll = time.Second

// WatchParent calls gone once when the process that started this one has
// ended; it returns then, or when ctx is done. A host that is killed hard
// leaves its servers running, with the model in memory. It must be called
// early: what happened before it is not seen.
//
// Linux sends a signal (SIGUSR1) and Windows wakes a wait at once; elsewhere
// it takes up to a second.
func WatchParent(ctx context.Context, gone func()) {
	if waitParent(ctx) {
		gone()
	}
}
