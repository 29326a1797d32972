//go:build linux || darwin || freebsd

package imagecache

import (
	"os"

	"golang.org/x/sys/unix"
)

// Space returns the number of bytes that this user may still write on the disk of a
// folder, and the total size of that disk.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
