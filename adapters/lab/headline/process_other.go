//go:build !linux

package headline

import "time"

// On this system peakMemory returns 0, because only Linux reports the memory of other
// processes.
func peakMemory(int, string) int64 { return 0 }

// On this system processorTime returns 0, because only Linux reports the processor time of
// other processes.
func processorTime(int, string) time.Duration { return 0 }
