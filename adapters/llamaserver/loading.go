package llamaserver

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// heartbeat is the longest silence while loading. The host gives up a load
// that prints nothing for some minutes, by configuration for some seconds.
const heartbeat = 2 * time.Second

// Loading tells the progress of a load: a line for each new step, and one at
// least every two seconds however long a step takes.
type Loading struct {
	lines *Lines
	begin time.Time
	mu    sync.Mutex
	what  string
	done  int
	total int
	told  time.Time
	stop  context.CancelFunc
	ended chan struct{}
}

// Loading starts to tell; Close ends it.
func (l *Lines) Loading() *Loading {
	ctx, stop := context.WithCancel(context.Background())
	p := &Loading{lines: l, begin: time.Now(), what: "start", stop: stop, ended: make(chan struct{})}
	p.tell()
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.mu.Lock()
				p.tell()
				p.mu.Unlock()
			}
		}
	}()
	return p
}

// Step tells that done of total parts are ready and what comes next. Steps
// of the same name within a second are told together.
func (p *Loading) Step(what string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := what != p.what || done == total && p.done != done
	p.what, p.done, p.total = what, done, total
	if news || time.Since(p.told) >= heartbeat/2 {
		p.tell()
	}
}

// tell needs the lock, or to be the only one that knows p.
func (p *Loading) tell() {
	p.told = time.Now()
	p.lines.write(fmt.Sprintf("sdnpu loading step=%q done=%d total=%d seconds=%.1f",
		p.what, p.done, p.total, time.Since(p.begin).Seconds()))
}

// Close ends the lines. It may be called twice.
func (p *Loading) Close() {
	p.stop()
	<-p.ended
}
