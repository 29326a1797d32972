//go:build !linux

package crash

// On this system, Watch does nothing.
func Watch(program, argument string) error { return nil }
