//go:build !linux

package doctor

// On this system, ownMemory returns 0, which means unknown.
func ownMemory() int64 { return 0 }

// On this system, FreeMemory returns known=false, because the system does not report
// free memory.
func FreeMemory() (size int64, known bool) { return 0, false }
