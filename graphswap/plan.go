package graphswap

import "fmt"

// Graph is a set of a block's two graphs: what is resident, or what may run.
type Graph uint8

const (
	// None is an empty set: the block cannot run.
	None Graph = 0
	// G1 is the long graph, for prompts.
	G1 Graph = 1
	// G2 is the short one, for verification.
	G2 Graph = 2
	// Both is both: resident together, or either may run.
	Both = G1 | G2
)

var graphNames = [...]string{"none", "G1", "G2", "both"}

func (g Graph) String() string {
	if int(g) < len(graphNames) {
		return graphNames[g]
	}
	return fmt.Sprintf("Graph(%d)", uint8(g))
}

// MarshalText writes the name.
func (g Graph) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *Graph) UnmarshalText(text []byte) error {
	for i, name := range graphNames {
		if name == string(text) {
			*g = Graph(i)
			return nil
		}
	}
	return fmt.Errorf("graphswap: %w: no graph is called %q", ErrPlan, text)
}

// Step is a chunk's way through a block: one execute on G1, or on G2 as many
// as the chunk's rows need, one after the other.
type Step struct {
	Chunk int `json:"chunk"` // from 0
	Block int `json:"block"` // from 0
	// Graph is the one that runs it. The step waits until it is resident.
	// Both stands for whatever is resident when the step's turn comes, the
	// last loaded first: a step beside a spare slot never waits.
	Graph Graph `json:"graph"`
}

// Load creates one graph of a block.
//
// Without a spare slot the block's other graph is freed first and the block
// cannot run until the load has ended. With one the graph is created beside the
// other, which is freed when the load has ended, or at the end of the block's
// running execute; the slot is taken until then, and so is the loader.
type Load struct {
	Block int   `json:"block"`
	Graph Graph `json:"graph"` // G1 or G2
	// After is the step whose end releases the load, as an index into Steps;
	// -1 releases it at the start. Loads run one at a time, in their order.
	After int `json:"after"`
}

// Plan says what one prefill does: in which order chunks go through blocks, on
// which graphs, and when each block's graphs are exchanged. It is a value: the
// simulator and the engine run the same one.
type Plan struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"` // one sentence
	Blocks int    `json:"blocks"`
	Rows1  int    `json:"rows_1"` // rows of G1
	Rows2  int    `json:"rows_2"` // rows of G2
	// Chunks holds the prompt's tokens, chunk by chunk: Rows1 and a rest.
	Chunks []int `json:"chunks"`
	Spare  bool  `json:"spare"` // one block's second graph fits beside all blocks

	Before []Graph `json:"before"` // resident at the start, per block
	Steps  []Step  `json:"steps"`  // the NPU's work, in its order
	Loads  []Load  `json:"loads"`  // the loader's, in its order
	After  []Graph `json:"after"`  // resident at the end, per block

	// First is per block the first chunk on G2; the number of chunks for a
	// block that leaves G1 after its last. With a spare slot it is what the
	// simulation expects. It says nothing that Steps and Loads do not say.
	First []int `json:"first"`
	// Window is the number of chunks that go through a block before the next
	// block gets them; 1 is the order of the papers.
	Window int `json:"window"`
}
