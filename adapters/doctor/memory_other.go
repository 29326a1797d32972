//go:build !linux

package doctor

// ownMemory returns 0: it is unknown on this system.
func ownMemory() int64 { return 0 }

// freeMemory reports false: it is unknown on this system.
func freeMemory() (size int64, known bool) { return 0, false }
