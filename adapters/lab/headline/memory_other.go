//go:build !linux

package headline

// On this system peakMemory returns 0, because only Linux reports the memory of other
// processes.
func peakMemory(int, string) int64 { return 0 }
