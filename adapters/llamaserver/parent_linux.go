package llamaserver

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// rememberParent returns what waits for the parent and reports whether it
// ended before ctx did.
//
// The kernel sends the signal when the thread that started us ends, which in
// a Go host may be long before the process. So the signal only makes us look,
// and must not be one that kills.
func rememberParent() func(context.Context) bool {
	parent := os.Getppid()
	return func(ctx context.Context) bool {
		runtime.LockOSThread() // the request for the signal is the thread's
		defer runtime.UnlockOSThread()
		died := make(chan os.Signal, 1)
		signal.Notify(died, unix.SIGUSR1)
		defer signal.Stop(died)
		// Without it the poll still finds out.
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGUSR1), 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }()
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return false
			case <-died:
			case <-tick.C:
			}
		}
		return true
	}
}
