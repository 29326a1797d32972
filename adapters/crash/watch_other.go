//go:build !linux

package crash

// Watch does nothing on this system.
func Watch(program, argument string) error { return nil }
