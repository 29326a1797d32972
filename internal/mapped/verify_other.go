//go:build !linux

package mapped

// Verify returns nil: a file that this system protects cannot be opened for writing.
func Verify() error { return nil }
