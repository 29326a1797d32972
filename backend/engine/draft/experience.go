package draft

import (
	"sync"

	"github.com/sdnpu/sdnpu/spec"
)

// Experience is what the requests of a model have taught about the worth of
// sources and context lengths, all in one mode. It ends with the process. It
// may be used from several goroutines; the zero value knows nothing.
type Experience struct {
	mu      sync.Mutex
	weights spec.Weights
	known   bool
}

// recall gives a request what was learned, or leaves the weights that it has.
func (x *Experience) recall(w *spec.Weights) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known {
		*w = x.weights
	}
}

// add adds what a request has learned between before and after: factors, so
// that of requests at the same time none undoes the other's.
func (x *Experience) add(before, after *spec.Weights) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known {
		x.weights, x.known = *before, true
	}
	x.weights.Change(before, after)
}
