//go:build unix

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, sizeBytes int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, sizeBytes, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }
