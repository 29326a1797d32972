//go:build linux && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"sync"

	"golang.org/x/sys/unix"
)

// stdoutLock is held while stdout is redirected. stdoutLock is taken before all
// other locks.
var stdoutLock sync.Mutex

// stdoutToStderr makes file descriptor 1 a duplicate of stderr, calls f and restores the
// descriptor. Before stdoutToStderr restores file descriptor 1, it flushes C's output
// buffers, because C would otherwise write their text to the real stdout when the process
// ends. If stdout or stderr is closed, stdoutToStderr calls f without redirection.
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
		// Restoring file descriptor 1 hardly fails, because the descriptor was open before;
		// if restoring fails, nothing can be done.
		_ = unix.Dup3(saved, 1, 0)
	}()
	f()
}
