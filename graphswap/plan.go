package graphswap

import "fmt"

// Variant is a set of graphs of a block: prefill, decode, both or none, with one bit
// for each graph. A Variant tells which graphs are loaded, or which graphs may run a
// step of a plan.
type Variant uint8

const (
	// None is the empty set of graphs: no graph is loaded, so the block cannot run.
	None Variant = 0
	// Prefill is the graph for prompts (AR-128 or AR-256).
	Prefill Variant = 1
	// Decode is the graph for verification and decode (AR-32, AR-8 or AR-1).
	Decode Variant = 2
	// Both is the Variant that contains a block's prefill graph and its decode graph.
	Both = Prefill | Decode
)

// variantNames are the names of variants that users see. fileNames are written to files
// and follow the papers.
var (
	variantNames = [...]string{"none", "prefill", "decode", "both"}
	fileNames    = [...]string{"none", "G1", "G2", "both"}
)

// String returns the variant's name: none, prefill, decode or both.
func (v Variant) String() string {
	if int(v) < len(variantNames) {
		return variantNames[v]
	}
	return fmt.Sprintf("Variant(%d)", uint8(v))
}

// MarshalText returns the variant's name in timeline files: none, G1 for prefill, G2 for
// decode, or both.
func (v Variant) MarshalText() ([]byte, error) {
	if int(v) < len(fileNames) {
		return []byte(fileNames[v]), nil
	}
	return nil, fmt.Errorf("graphswap: %w: variant %d: want 0..3", ErrPlan, uint8(v))
}

// UnmarshalText sets the variant from the name that a plan's file gives it.
func (v *Variant) UnmarshalText(text []byte) error {
	for i, name := range fileNames {
		if name == string(text) {
			*v = Variant(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: graph %q: want none, G1, G2 or both", ErrPlan, text)
}

// Step is the work of one chunk in one block: one execute of the prefill graph, or as
// many executes of the decode graph as the rows of the chunk need.
type Step struct {
	Chunk int `json:"chunk"` // from 0
	Block int `json:"block"` // from 0
	// Variant is the graph that runs the step; the step waits until this graph is
	// loaded. The value Both means that the step never waits: it takes a loaded graph,
	// and if two are loaded, the one that was loaded last. Plans with a spare graph
	// slot use the value Both.
	Variant Variant `json:"graph"`
}

// Load is a load in a plan: it brings in one graph of a block.
//
// Without a spare graph slot, the load first frees the block's other graph, and the block
// cannot run until the load ends. With a spare graph slot, the block's other graph stays
// until both the load and the running step of the block have ended. Until the block's other
// graph is freed, the spare graph slot and the loader are busy.
type Load struct {
	Block   int     `json:"block"`
	Variant Variant `json:"graph"` // Variant is the graph that is loaded: Prefill or Decode
	// After is the index in Plan.Steps of the step after which the load may start. If
	// After is -1, the load may start at once. Loads run one at a time, in the order of
	// Plan.Loads.
	After int `json:"after"`
}

// Plan is the schedule of one prefill: the order in which chunks go through blocks,
// the graph of each step, and the loads. The simulator and the engine run the same
// plan.
type Plan struct {
	Name        string `json:"name"`
	Reason      string `json:"reason,omitempty"` // Reason explains the plan in one sentence
	Blocks      int    `json:"blocks"`
	PrefillRows int    `json:"rows_1"` // PrefillRows is the width of the prefill graphs
	DecodeRows  int    `json:"rows_2"` // DecodeRows is the width of the decode graphs
	// Chunks holds the number of tokens of each chunk. Each chunk has PrefillRows
	// tokens; the last one has the rest.
	Chunks []int `json:"chunks"`
	Spare  bool  `json:"spare"` // Spare tells whether the plan uses a spare graph slot

	Before []Variant `json:"before"` // Before holds, per block, the graphs that are loaded at the start of the plan
	Steps  []Step    `json:"steps"`  // Steps lists which chunk the NPU computes in which block, in order
	Loads  []Load    `json:"loads"`  // Loads lists the graphs that the loader brings in, in order
	After  []Variant `json:"after"`  // After holds, per block, the graphs that are loaded at the end of the plan

	// DecodeFrom is, for each block, the first chunk that runs on the decode graph, or
	// the number of chunks if none does. For plans with a spare graph slot, DecodeFrom
	// comes from the simulation. DecodeFrom can be computed from Steps and Loads; it is
	// stored for people who read the file.
	DecodeFrom []int `json:"first"`
	// Window is the largest number of chunks that go through a block before the
	// next block gets them. In the papers' order, Window is 1.
	Window int `json:"window"`
}
