package graphswap

import "fmt"

// Lane is what a task occupies. A lane runs one task at a time, to its end.
type Lane uint8

// The lanes, in the order that breaks ties.
const (
	NPU Lane = iota
	CPU
	IO
)

var laneNames = [...]string{"NPU", "CPU", "IO"}

func (l Lane) String() string {
	if int(l) < len(laneNames) {
		return laneNames[l]
	}
	return fmt.Sprintf("Lane(%d)", uint8(l))
}

// MarshalText writes the name.
func (l Lane) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *Lane) UnmarshalText(text []byte) error {
	for i, name := range laneNames {
		if name == string(text) {
			*l = Lane(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: no lane is called %q", ErrTimeline, text)
}

// What a task does.
const (
	Run    = "run"    // NPU: a step of the plan
	Verify = "verify" // NPU: a block of a decode pass
	Create = "load"   // IO: the creation of a context, the release of the old one included
	Draft  = "draft"  // CPU: the making of a draft
	Sample = "sample" // CPU: the draws from a pass's logits

	Calibrate = "calibrate" // CPU: what a prompt's logits say is put by
)

// Task is something that was done, or will have been.
type Task struct {
	Lane    Lane    `json:"lane"`
	Kind    string  `json:"kind"`
	StartMs float64 `json:"start_ms"`
	EndMs   float64 `json:"end_ms"`
	Block   int     `json:"block"` // from 0; -1 for all of them
	Graph   Graph   `json:"graph"`
	// Index is the step's place in the plan's Steps or the load's in its
	// Loads; -1 for what the plan does not list.
	Index int `json:"index"`
	// Chunk is a step's, from 0; a decode pass counts on from the last one.
	Chunk int `json:"chunk"`
	// Runs counts executes; Rows are the rows that they took, padding
	// included, Valid those that had a token, Wasted those whose token was
	// rejected.
	Runs   int `json:"runs,omitempty"`
	Rows   int `json:"rows,omitempty"`
	Valid  int `json:"valid,omitempty"`
	Wasted int `json:"wasted,omitempty"`
	// WaitMs is how long the lane stood still for this task's graph: a stall.
	WaitMs float64 `json:"wait_ms,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"` // loaded
}

// MemoryPoint is the resident memory from a moment on.
type MemoryPoint struct {
	AtMs  float64 `json:"at_ms"`
	Bytes int64   `json:"bytes"`
}

// Sources of a timeline.
const (
	Simulated = "simulated"
	Executed  = "executed"
)

// Timeline is what a plan did, or will do: the same type from the simulator
// and from the engine.
type Timeline struct {
	Source string        `json:"source"`         // Simulated or Executed
	Kind   string        `json:"kind,omitempty"` // of the profile that times are by, see Fitted
	Plan   *Plan         `json:"plan"`
	Tasks  []Task        `json:"tasks"` // by start; ties by lane
	Memory []MemoryPoint `json:"memory,omitempty"`

	PrefillMs   float64 `json:"prefill_ms"`    // end of the last step
	SwitchEndMs float64 `json:"switch_end_ms"` // end of the last load, at least PrefillMs
	ExposedMs   float64 `json:"exposed_ms"`    // SwitchEndMs beyond the prefill with G1 alone
	StallMs     float64 `json:"stall_ms"`      // NPU, waiting for a load
	NPUBusyMs   float64 `json:"npu_busy_ms"`
	FirstPassMs float64 `json:"first_pass_ms,omitempty"` // end of a first decode pass that follows the loads
	IOBytes     int64   `json:"io_bytes"`
	PeakBytes   int64   `json:"peak_bytes"`
}
