//go:build !linux && !windows

package llamaserver

import (
	"context"
	"os"
	"time"
)

// rememberParent returns what waits for the parent and reports whether it
// ended before ctx did.
func rememberParent() func(context.Context) bool {
	parent := os.Getppid()
	return func(ctx context.Context) bool {
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
}
