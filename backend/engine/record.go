package engine

import (
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// maxTasks bounds what is written down of one execution: a prompt of a thousand
// chunks, or an answer of as many tokens.
const maxTasks = 1 << 14

// recorder writes down what an execution does, in the form of the plan's
// prediction.
type recorder struct {
	mu       sync.Mutex
	began    time.Time
	timeline graphswap.Timeline
}

func newRecorder(began time.Time, plan *graphswap.Plan, residentBytes int64) *recorder {
	r := &recorder{began: began, timeline: graphswap.Timeline{Source: graphswap.Executed, Plan: plan}}
	r.memory(residentBytes)
	return r
}

// now and at are in milliseconds since the plan began.
func (r *recorder) now() float64           { return r.at(time.Now()) }
func (r *recorder) at(t time.Time) float64 { return milliseconds(t.Sub(r.began)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// add writes down a task and what it says of the whole.
func (r *recorder) add(t graphswap.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.timeline
	if len(l.Tasks) < maxTasks {
		l.Tasks = append(l.Tasks, t)
	}
	switch t.Kind {
	case graphswap.Run:
		l.PrefillMs = max(l.PrefillMs, t.EndMs)
		l.StallMs += t.WaitMs
		l.NPUBusyMs += t.EndMs - t.StartMs
	case graphswap.Create:
		l.IOBytes += t.Bytes
		l.SwitchEndMs = max(l.SwitchEndMs, t.EndMs)
	}
	l.SwitchEndMs = max(l.SwitchEndMs, l.PrefillMs)
}

// memory writes down how many bytes of programs are resident from now on.
func (r *recorder) memory(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline.Memory = append(r.timeline.Memory, graphswap.MemoryPoint{AtMs: r.now(), Bytes: bytes})
	r.timeline.PeakBytes = max(r.timeline.PeakBytes, bytes)
}

// snapshot is what has been written down so far, tasks by their start.
func (r *recorder) snapshot() graphswap.Timeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.timeline
	t.Memory = append([]graphswap.MemoryPoint(nil), t.Memory...)
	t.Tasks = append([]graphswap.Task(nil), t.Tasks...)
	return t
}
