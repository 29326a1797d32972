//go:build unix

package launch

import (
	"os"
	"syscall"
)

// private reports whether a folder belongs to this user, and no other user can
// write to it.
func private(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
