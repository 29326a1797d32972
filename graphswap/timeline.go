package graphswap

import "fmt"

// Lane is a unit that runs one task at a time: NPU, CPU or loader.
type Lane uint8

// Among tasks with equal start times, tasks of the NPU come first, then those of the CPU,
// then those of the loader.
const (
	NPU Lane = iota
	CPU
	IO
)

var laneNames = [...]string{"NPU", "CPU", "IO"}

// String returns the lane's name: NPU, CPU or IO.
func (l Lane) String() string {
	if int(l) < len(laneNames) {
		return laneNames[l]
	}
	return fmt.Sprintf("Lane(%d)", uint8(l))
}

// MarshalText encodes a lane as its name: NPU, CPU or IO.
func (l Lane) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets the lane from one of the names NPU, CPU and IO.
func (l *Lane) UnmarshalText(text []byte) error {
	for i, name := range laneNames {
		if name == string(text) {
			*l = Lane(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: lane %q: want NPU, CPU or IO", ErrTimeline, text)
}

// The constants below are the kinds of tasks in a timeline.
const (
	Run       = "run"       // Run is a task of the NPU: a step of the plan
	Verify    = "verify"    // Verify is a task of the NPU: a block in a decode pass
	Create    = "load"      // Create is a task of the loader: free the old graph and load the new one
	Draft     = "draft"     // Draft is a task of the CPU: make a draft
	Sample    = "sample"    // Sample is a task of the CPU: sample tokens from the logits of a pass
	Calibrate = "calibrate" // Calibrate is a task of the CPU: learn from the logits of a prompt
	Float     = "float"     // Float is a task of the CPU: compute a subgraph of a layer in float arithmetic
)

// Task is one piece of work on a lane, with forecast or recorded times.
type Task struct {
	Lane    Lane    `json:"lane"`
	Kind    string  `json:"kind"`
	StartMs float64 `json:"start_ms"`
	EndMs   float64 `json:"end_ms"`
	Block   int     `json:"block"` // Block is the number of the block, from 0; -1 stands for all blocks
	Variant Variant `json:"graph"`
	// Index is the index of the task in the plan's Steps or Loads, or -1 for tasks
	// that the plan does not list.
	Index int `json:"index"`
	// Chunk is the number of the step's chunk, from 0. A decode pass after the prompt
	// counts as a further chunk: its number follows that of the last chunk.
	Chunk int `json:"chunk"`
	// Runs is the number of executes that the task took, and Rows the number of rows that
	// these executes computed. Valid is the number of rows of a task that held a token; the
	// others were padding rows. Wasted is the number of rows of a task that held a rejected
	// draft.
	Runs   int `json:"runs,omitempty"`
	Rows   int `json:"rows,omitempty"`
	Valid  int `json:"valid,omitempty"`
	Wasted int `json:"wasted,omitempty"`
	// WaitMs is the time for which the lane waited for the graph of the task (a stall).
	WaitMs float64 `json:"wait_ms,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"` // Bytes is the size of the loaded graph
}

// MemoryPoint is the memory that a plan uses from a certain time on.
type MemoryPoint struct {
	AtMs  float64 `json:"at_ms"`
	Bytes int64   `json:"bytes"`
}

// The times of a timeline come from the simulator (Simulated) or from the engine (Executed).
const (
	Simulated = "simulated"
	Executed  = "executed"
)

// Timeline lists the tasks of a plan with their start and end times. A timeline from
// the simulator is a forecast. A timeline from the engine has the measured times.
type Timeline struct {
	Source string `json:"source"` // Source tells whether the simulator or the engine made the times
	// Kind is the origin of the numbers in the profile, such as [Fitted]
	Kind   string        `json:"kind,omitempty"`
	Plan   *Plan         `json:"plan"`
	Tasks  []Task        `json:"tasks"` // Tasks is sorted by start time, then by lane
	Memory []MemoryPoint `json:"memory,omitempty"`

	PrefillMs float64 `json:"prefill_ms"` // PrefillMs is the end of the last step of the plan
	// SwitchEndMs is the end of the plan's last load, but at least PrefillMs
	SwitchEndMs float64 `json:"switch_end_ms"`
	ExposedMs   float64 `json:"exposed_ms"` // ExposedMs is SwitchEndMs minus the time of a prefill on prefill graphs alone
	StallMs     float64 `json:"stall_ms"`   // StallMs is the time that the NPU waited for loads
	NPUBusyMs   float64 `json:"npu_busy_ms"`
	// FirstPassMs is the end of the first decode pass after the loads
	FirstPassMs float64 `json:"first_pass_ms,omitempty"`
	IOBytes     int64   `json:"io_bytes"`
	PeakBytes   int64   `json:"peak_bytes"`
}
