// Package kvcache holds the keys and values of all sequences in host memory and
// is the only place that computes where they lie.
//
// # Layout
//
// For each layer there are keys and values: the past, [KVHeads, slots, HeadDim],
// which graphs read, and the rows that the last graph wrote, [KVHeads, width,
// HeadDim]. A slot holds one token of one sequence. Sequence i owns the slots
// [i*Context, (i+1)*Context), its tokens in order of position. Graphs of every
// width bind the same memory.
//
// # Life of a row
//
// A graph writes the keys and values of its rows next to the past, not into it.
// [Cache.Computed] notes the graph's width. [Cache.Commit] copies accepted rows
// of all layers into the slots after a sequence's tokens. So a rejected draft
// costs nothing, and a pass that fails leaves the past as it was.
//
// A pass that takes more rows than its graph has is computed in parts.
// [Cache.Collect] keeps the rows of each part before the next part overwrites
// them, and [Cache.Store] shows them to the next part in free slots, which
// [Cache.ClearSlots] empties again.
//
// # Invariants
//
//   - a slot that holds no token is zero, except while a block is computed in
//     parts or a window of chunks is under way;
//   - the past of one sequence never depends on another sequence, on the width
//     of the graphs or on how layers were grouped into blocks.
//
// The package runs no graph, takes no lock and starts no goroutine: the holder
// of the engine's device lock calls it. [Cache.Commit] of different sequences may
// run at the same time, because each writes only its own sequence's slots.
//
// Cost: Commit, Store and Collect copy KVHeads pieces per run of neighbouring
// rows, layer and port; nothing is allocated per token.
package kvcache
