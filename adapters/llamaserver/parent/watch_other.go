//go:build !linux && !windows

package parent

import (
	"context"
	"os"
	"time"
)

// rememberParent returns a function that waits for the exit of the parent. The returned
// function reports false if ctx is done before the parent exits.
func rememberParent() func(context.Context) bool {
	parent := os.Getppid()
	return func(ctx context.Context) bool {
		tick := time.NewTicker(pollTime)
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
