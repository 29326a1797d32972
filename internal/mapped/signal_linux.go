package mapped

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// leases holds the file leases (F_SETLEASE) of this process: the kernel stops programs that
// write to a leased file, and sends this process SIGIO. The list of leases is global because a signal
// belongs to the process and does not tell which file it is about.
var leases struct {
	sync.Mutex
	all  map[*lease]bool
	stop func() // stop ends the goroutine that waits for signals; it is nil if there is none
}

// register makes each SIGIO check the lease, until unregister.
func register(l *lease) {
	leases.Lock()
	defer leases.Unlock()
	if leases.all == nil {
		leases.all = make(map[*lease]bool)
	}
	leases.all[l] = true
	if leases.stop == nil {
		leases.stop = waitForSignals()
	}
}

// unregister waits until the goroutine of the last lease has ended.
func unregister(l *lease) {
	leases.Lock()
	delete(leases.all, l)
	stop := leases.stop
	if len(leases.all) > 0 {
		stop = nil
	} else {
		leases.stop = nil
	}
	leases.Unlock()
	if stop != nil {
		stop()
	}
}

// waitForSignals checks all leases whenever the process gets a SIGIO.
func waitForSignals() (stop func()) {
	signals, quit, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, unix.SIGIO)
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				checkAll()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-ended
	}
}

// checkAll checks all leases of the process. checkedUntil is a time until which no writer can
// have continued unnoticed. If a process breaks a lease after a check, the system makes it wait
// for the whole break time; half of that time is left as a margin.
func checkAll() {
	until := int64(sinceStart() + breakTime()/2)
	leases.Lock()
	list := make([]*lease, 0, len(leases.all))
	for l := range leases.all {
		list = append(list, l)
	}
	leases.Unlock()
	for _, l := range list {
		l.check()
	}
	checkedUntil.Store(until)
}

var (
	checkedUntil atomic.Int64 // checkedUntil is in nanoseconds of the clock sinceStart
	lost         atomic.Int64 // lost is the number of open files whose bytes could not be kept
	start        = time.Now()
)

// sinceStart returns a time that stops while the machine is suspended, as does the time
// for which the system holds a writer.
func sinceStart() time.Duration { return time.Since(start) }

// Verify checks that the bytes that were read from open kept files before the call are
// those that [Keep] mapped. If bytes were changed before they were read, Verify returns
// [ErrGone].
//
// A process that was stopped for longer than the system holds a writer reads changed bytes
// before it handles the signal about the writer. A program must call Verify after a
// computation and before it uses the computation's result. Each call of Verify reads the
// clock, but few calls ask the system. Verify asks the system about each file only if half
// of the time for which a writer is held has passed since the last answer.
func Verify() error {
	if int64(sinceStart()) >= checkedUntil.Load() {
		checkAll()
	}
	if lost.Load() > 0 {
		return fmt.Errorf("mapped: %w", ErrGone)
	}
	return nil
}

// available returns the memory that the system can give without swapping, in bytes.
// Tests replace it.
var available = func() (bytes int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 62 // unknown: try
	}
	return meminfo(string(text))
}

// breakTime returns the time for which the system holds a writer. Tests replace it.
var breakTime = func() time.Duration {
	seconds := 45
	if text, err := os.ReadFile("/proc/sys/fs/lease-break-time"); err == nil {
		_, _ = fmt.Sscan(string(text), &seconds) // if the file does not hold a number, `seconds` keeps its default
	}
	if seconds <= 0 {
		seconds = 1 << 30 // a break time of zero means that the system makes writers wait without a limit
	}
	return time.Duration(seconds) * time.Second
}

// meminfo returns the available memory in bytes that the text of /proc/meminfo states.
func meminfo(text string) int64 {
	for line := range strings.Lines(text) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 1 << 62
}
