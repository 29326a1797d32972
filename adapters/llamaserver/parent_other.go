//go:build !linux && !windows

package llamaserver

import (
	"context"
	"os"
	"time"
)

// waitParent reports whether the parent ended before ctx did.
func waitParent(ctx context.Context) bool {
	parent := os.Getppid()
	tick := time.NewTicker(parentPoll)
	defer tick.Stop()
	for os.Getppid() == parent {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
