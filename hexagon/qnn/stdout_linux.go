//go:build linux && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"sync"

	"golang.org/x/sys/unix"
)

var stdoutLock sync.Mutex

// stdoutToStderr runs f while file descriptor 1 is a second name of stderr.
// What C wrote meanwhile lies in its buffers, which are therefore flushed
// before the descriptor is put back; left alone it would appear when the
// process ends. Where stderr is closed, f runs as it is.
func stdoutToStderr(f func()) {
	stdoutLock.Lock()
	defer stdoutLock.Unlock()
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		f()
		return
	}
	defer func() { _ = unix.Close(saved) }()
	if err := unix.Dup3(2, 1, 0); err != nil {
		f()
		return
	}
	defer func() {
		if flush := libc("fflush"); flush != 0 {
			invoke(flush, 0)
		}
		// It was open a moment ago, and nothing better can be done than to try.
		_ = unix.Dup3(saved, 1, 0)
	}()
	f()
}
