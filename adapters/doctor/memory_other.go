//go:build !linux

package doctor

// ownMemory returns 0, which means unknown: this system does not report it.
func ownMemory() int64 { return 0 }

// freeMemory returns known=false, because this system does not report it.
func freeMemory() (size int64, known bool) { return 0, false }
