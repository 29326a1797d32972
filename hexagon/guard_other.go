//go:build !linux && !darwin

package hexagon

// guardedMemory returns zeroed Go memory: this system has no guard.
func guardedMemory(size int) (bytes []byte, free func() error, err error) {
	return aligned(size), func() error { return nil }, nil
}
