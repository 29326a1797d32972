package cpu

import (
	"sync"
	"sync/atomic"
)

// grain is how many cheap element operations are worth a goroutine.
const grain = 16 << 10

// workers is how many goroutines share one operator.
type workers int

// each calls f for ranges that together cover [0,n), at most step long, and
// returns when all are done. Ranges are handed out one by one, so that a busy
// core does not hold up the others.
func (w workers) each(n, step int, f func(lo, hi int)) {
	step = max(step, 1)
	tasks := (n + step - 1) / step
	if w <= 1 || tasks <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			lo := (int(next.Add(1)) - 1) * step
			if lo >= n {
				return
			}
			f(lo, min(lo+step, n))
		}
	}
	var group sync.WaitGroup
	for range min(int(w), tasks) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
}

// rows is each for rows of size elements.
func (w workers) rows(n, size int, f func(lo, hi int)) {
	w.each(n, max(1, grain/size), f)
}
