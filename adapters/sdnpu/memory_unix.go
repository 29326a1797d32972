//go:build unix

package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// peakMemory is the largest resident size so far of this process, or of one that
// compiled for it, in bytes.
func peakMemory() (size int64) {
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

// processorTime is what all cores have spent so far on this process and on those
// that compiled for it.
func processorTime() (spent time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if unix.Getrusage(who, &usage) == nil {
			spent += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
	return spent
}
