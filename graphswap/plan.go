package graphswap

import "fmt"

// Variant is a set of a block's two graphs, one bit for each: the graphs that are
// loaded, or those that may run.
type Variant uint8

const (
	// None is the empty set: the block cannot run.
	None Variant = 0
	// Prefill is the graph for prompts (AR-128 or AR-256).
	Prefill Variant = 1
	// Decode is the graph for verification and decode (AR-32, AR-8 or AR-1).
	Decode Variant = 2
	// Both is the set of the two graphs.
	Both = Prefill | Decode
)

// variantNames are shown to people. fileNames are written to files and follow the papers.
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

// MarshalText returns the name that timeline files have: none, G1, G2 or both.
func (v Variant) MarshalText() ([]byte, error) {
	if int(v) < len(fileNames) {
		return []byte(fileNames[v]), nil
	}
	return nil, fmt.Errorf("graphswap: %w: variant %d: want 0..3", ErrPlan, uint8(v))
}

// UnmarshalText parses a name that MarshalText wrote.
func (v *Variant) UnmarshalText(text []byte) error {
	for i, name := range fileNames {
		if name == string(text) {
			*v = Variant(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: graph %q: want none, G1, G2 or both", ErrPlan, text)
}

// Step is the work of one chunk in one block: one execute on the prefill graph, or
// as many on the decode graph as the chunk's rows need.
type Step struct {
	Chunk int `json:"chunk"` // from 0
	Block int `json:"block"` // from 0
	// Variant is the graph that runs the step; the step waits until it is resident.
	// Both means the resident graph, or the last loaded of two: with a spare slot
	// no step waits.
	Variant Variant `json:"graph"`
}

// Load brings in one graph of a block.
//
// Without a spare slot it first frees the block's other graph, and the block cannot
// run until the load ends. With a spare slot the other graph stays until the load
// has ended and the block's running step too; until then slot and loader are busy.
type Load struct {
	Block   int     `json:"block"`
	Variant Variant `json:"graph"` // Prefill or Decode
	// After is the step after which the load may start, as an index into Steps; -1
	// lets it start at once. Loads run one at a time, in their order.
	After int `json:"after"`
}

// Plan is the schedule of one prefill: the order in which chunks go through blocks,
// the graph of each step, and the loads. The simulator and the engine run the same
// plan.
type Plan struct {
	Name        string `json:"name"`
	Reason      string `json:"reason,omitempty"` // one sentence
	Blocks      int    `json:"blocks"`
	PrefillRows int    `json:"rows_1"` // width of the prefill graphs
	DecodeRows  int    `json:"rows_2"` // width of the decode graphs
	// Chunks holds the tokens of each chunk: PrefillRows, and the rest in the last.
	Chunks []int `json:"chunks"`
	Spare  bool  `json:"spare"` // there is a spare slot

	Before []Variant `json:"before"` // resident at the start, per block
	Steps  []Step    `json:"steps"`  // the NPU's work, in order
	Loads  []Load    `json:"loads"`  // the loader's work, in order
	After  []Variant `json:"after"`  // resident at the end, per block

	// DecodeFrom is the first chunk of each block on the decode graph; the number of chunks if
	// there is none. With a spare slot it comes from the simulation. It follows from Steps and
	// Loads.
	DecodeFrom []int `json:"first"`
	// Window is the largest number of chunks that go through a block before the next block gets
	// them. The papers' order has windows of 1.
	Window int `json:"window"`
}
