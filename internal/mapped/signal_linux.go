package mapped

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// leases are those of the process. The leases are global because a signal belongs
// to the process and does not tell which file it is about.
var leases struct {
	sync.Mutex
	all  map[*lease]bool
	stop func() // ends the goroutine that waits for signals; nil if there is none
}

// register makes signals check the lease, until unregister.
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

func checkAll() {
	leases.Lock()
	list := make([]*lease, 0, len(leases.all))
	for l := range leases.all {
		list = append(list, l)
	}
	leases.Unlock()
	for _, l := range list {
		l.check()
	}
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

// breakTime returns how long the system holds a writer.
func breakTime() time.Duration {
	seconds := 45
	if text, err := os.ReadFile("/proc/sys/fs/lease-break-time"); err == nil {
		_, _ = fmt.Sscan(string(text), &seconds) // keeps the default if it is no number
	}
	return time.Duration(seconds) * time.Second
}

// meminfo returns MemAvailable of /proc/meminfo in bytes.
func meminfo(text string) int64 {
	for line := range strings.Lines(text) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 1 << 62
}
