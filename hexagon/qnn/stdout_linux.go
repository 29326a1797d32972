//go:build linux && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"sync"

	"golang.org/x/sys/unix"
)

// stdoutLock is held while stdout is redirected. stdoutLock is taken before all
// other locks.
var stdoutLock sync.Mutex

// stdoutToStderr calls a function while file descriptor 1 is a duplicate of stderr. C's
// output buffers are flushed before the descriptor is restored; otherwise their text
// would appear on stdout when the process ends. If stderr is closed, stdoutToStderr
// calls the function without redirection.
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
		// The file descriptor was open before, so restoring it hardly fails; if
		// restoring fails, nothing can be done.
		_ = unix.Dup3(saved, 1, 0)
	}()
	f()
}
