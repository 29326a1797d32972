package graphswap

import "fmt"

// Lane is a unit that runs one task at a time.
type Lane uint8

// The lanes, in the order of tasks with equal start.
const (
	NPU Lane = iota
	CPU
	IO
)

var laneNames = [...]string{"NPU", "CPU", "IO"}

// String returns the lane's name.
func (l Lane) String() string {
	if int(l) < len(laneNames) {
		return laneNames[l]
	}
	return fmt.Sprintf("Lane(%d)", uint8(l))
}

// MarshalText returns the lane's name.
func (l Lane) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses a lane's name.
func (l *Lane) UnmarshalText(text []byte) error {
	for i, name := range laneNames {
		if name == string(text) {
			*l = Lane(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: lane %q: want NPU, CPU or IO", ErrTimeline, text)
}

// Kinds of tasks.
const (
	Run       = "run"       // NPU: a step of the plan
	Verify    = "verify"    // NPU: a block in a decode pass
	Create    = "load"      // IO: free the old graph and load the new one
	Draft     = "draft"     // CPU: make a draft
	Sample    = "sample"    // CPU: sample tokens from a pass's logits
	Calibrate = "calibrate" // CPU: learn from a prompt's logits
)

// Task is one piece of work of a lane, forecast or recorded.
type Task struct {
	Lane    Lane    `json:"lane"`
	Kind    string  `json:"kind"`
	StartMs float64 `json:"start_ms"`
	EndMs   float64 `json:"end_ms"`
	Block   int     `json:"block"` // from 0; -1 for all of them
	Variant Variant `json:"graph"`
	// Index is the step's index in the plan's Steps, or the load's in its Loads;
	// -1 for tasks that the plan does not list.
	Index int `json:"index"`
	// Chunk is the chunk of a step, from 0. Decode passes continue the count.
	Chunk int `json:"chunk"`
	// Runs is the number of executes and Rows the number of their rows: Valid rows
	// held a token, the others are padding rows. Wasted rows held a rejected token.
	Runs   int `json:"runs,omitempty"`
	Rows   int `json:"rows,omitempty"`
	Valid  int `json:"valid,omitempty"`
	Wasted int `json:"wasted,omitempty"`
	// WaitMs is the stall: the time that the lane waited for this task's graph.
	WaitMs float64 `json:"wait_ms,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"` // loaded
}

// MemoryPoint is the memory in use from a time on.
type MemoryPoint struct {
	AtMs  float64 `json:"at_ms"`
	Bytes int64   `json:"bytes"`
}

// Sources of a timeline.
const (
	Simulated = "simulated"
	Executed  = "executed"
)

// Timeline records a plan's tasks with their times. The simulator returns a forecast. The engine
// returns its measured tasks.
type Timeline struct {
	Source string        `json:"source"`         // Simulated or Executed
	Kind   string        `json:"kind,omitempty"` // kind of the profile, see [Fitted]
	Plan   *Plan         `json:"plan"`
	Tasks  []Task        `json:"tasks"` // by start, then by lane
	Memory []MemoryPoint `json:"memory,omitempty"`

	PrefillMs   float64 `json:"prefill_ms"`    // end of the last step
	SwitchEndMs float64 `json:"switch_end_ms"` // end of the last load, at least PrefillMs
	ExposedMs   float64 `json:"exposed_ms"`    // SwitchEndMs less a prefill on prefill graphs alone
	StallMs     float64 `json:"stall_ms"`      // time that the NPU waited for loads
	NPUBusyMs   float64 `json:"npu_busy_ms"`
	FirstPassMs float64 `json:"first_pass_ms,omitempty"` // end of a first decode pass after the loads
	IOBytes     int64   `json:"io_bytes"`
	PeakBytes   int64   `json:"peak_bytes"`
}
