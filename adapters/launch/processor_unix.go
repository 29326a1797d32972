//go:build unix

package launch

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time of this process and of its child
// processes that have ended, summed over all cores.
func ProcessorTime() (spent time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if unix.Getrusage(who, &usage) == nil {
			spent += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
	return spent
}

// PeakMemory returns the largest resident memory in bytes that one process has had:
// this process, or one of its child processes that have ended.
func PeakMemory() (size int64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if unix.Getrusage(who, &usage) == nil {
			size = max(size, int64(usage.Maxrss))
		}
	}
	if runtime.GOOS == "darwin" {
		return size
	}
	return size * 1024
}
