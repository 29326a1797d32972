package engine

import (
	"runtime"
	"time"
)

// spent is the time that something took, and the processor time of it.
type spent struct {
	began     time.Time
	wall, cpu time.Duration
}

// watch measures what its goroutine does until stop, which has to follow.
type watch struct {
	began  time.Time
	thread func() time.Duration // nil where nobody asks
	cpu    time.Duration
}

// watch begins to measure. The goroutine keeps its thread while that one's time
// is read.
func (e *Engine) watch() watch {
	w := watch{thread: e.options.ThreadTime}
	if w.thread != nil {
		runtime.LockOSThread()
		w.cpu = w.thread()
	}
	w.began = time.Now()
	return w
}

func (w watch) stop() spent {
	s := spent{began: w.began, wall: time.Since(w.began)}
	if w.thread != nil {
		s.cpu = w.thread() - w.cpu
		runtime.UnlockOSThread()
	}
	return s
}
