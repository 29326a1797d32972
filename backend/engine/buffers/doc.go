// Package buffers holds the memory that the graphs of all blocks bind at one context
// tier: hidden states, rotary angles, attention masks and the KV cache.
//
// [New] allocates it. [Buffers.Ports] maps the ports of a block's graphs to it.
// Before a graph runs, [Buffers.Fill] writes the angles and masks of a pass, whose
// [Rows] form trees of tokens.
//
// Two regions of hidden states serve all blocks: block i reads region i%2 and writes
// the other one. Each graph width has its own form of angles and masks, in the same
// memory. If a prefill pass runs on decode graphs, it is computed in parts, each as
// wide as a decode graph. Each part has its own angles and masks, and its rows of the
// hidden states.
//
// # Masks
//
// A mask is added to attention scores: 0 shows a slot, [model.MaskValue] hides it.
// Its columns are the slots of all sequences, then the rows of the graph. A row sees
// the committed slots of its own sequence, its ancestors in the pass and itself, and
// of these only the ones that a sliding window reaches. A padding row sees itself.
//
// The package runs no graph and takes no lock: the holder of the engine's device lock
// calls it. Fill writes rows x columns elements per view, and copies them for each
// group of heads; it does nothing for masks that the pass has filled already.
package buffers
