//go:build unix

package main

import (
	"os"
	"syscall"
)

// private reports whether a folder is this user's and nobody else may write it.
func private(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
