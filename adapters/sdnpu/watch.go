package main

import (
	"sync"
	"time"
)

// memoryWatch looks at this process's own memory again and again: the system
// keeps the peak of all resident memory only, mapped files included.
type memoryWatch struct {
	once  sync.Once
	quit  chan struct{}
	ended chan struct{}
	peak  int64
}

func watchOwnMemory() *memoryWatch {
	w := &memoryWatch{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			w.peak = max(w.peak, ownMemory())
			select {
			case <-ticker.C:
			case <-w.quit:
				return
			}
		}
	}()
	return w
}

// stop ends the watch and returns the peak in bytes, 0 where it is not known.
func (w *memoryWatch) stop() int64 {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
	return w.peak
}
