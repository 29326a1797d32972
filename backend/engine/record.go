package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// maxTasks bounds what is written down of one execution: a prompt of a thousand
// chunks. maxVerified bounds the decode passes, of which long answers have as
// many as tokens: the first ones show how an answer goes on.
const (
	maxTasks    = 1 << 14
	maxVerified = 1 << 11
)

// recorder writes down what an execution does, in the form of the plan's
// prediction.
type recorder struct {
	mu       sync.Mutex
	began    time.Time
	timeline graphswap.Timeline
}

func newRecorder(began time.Time, plan *graphswap.Plan) *recorder {
	return &recorder{began: began, timeline: graphswap.Timeline{Source: graphswap.Executed, Plan: plan}}
}

// now and at are in milliseconds since the plan began.
func (r *recorder) now() float64           { return r.at(time.Now()) }
func (r *recorder) at(t time.Time) float64 { return milliseconds(t.Sub(r.began)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// add writes down a task.
func (r *recorder) add(t graphswap.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.timeline.Tasks) < maxTasks {
		r.timeline.Tasks = append(r.timeline.Tasks, t)
	}
}

// set takes a whole timeline over.
func (r *recorder) set(t *graphswap.Timeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline = *t
}

// snapshot is what has been written down so far, with its sums.
func (r *recorder) snapshot(p *graphswap.Problem) graphswap.Timeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.timeline
	t.Tasks = slices.Clone(t.Tasks)
	t.Sum(p)
	return t
}
