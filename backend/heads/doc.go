// Package heads runs a decoder on a float device and lets the caller compute the attention of each
// head. It measures how important heads are, and turns importance into the share of keys that each
// head keeps in sparse attention.
//
// [Open] cuts the graph of each layer in two: one graph computes queries, keys and values, and the
// other one computes the rest from the results of attention. Between the two, the processor attends
// ([Attention]). [Dense] is the usual attention; [Model.Measure] sets the results of single heads to
// zero.
//
// # Invariants
//
//   - The results of a row do not depend on the rows that run together with it.
//   - Package heads never changes a model, and owns no file.
//   - [Ratios] is a pure function: equal importances give equal ratios.
//
// # Cost
//
// An open model holds its weights in float32. [Model.Measure] computes a few rows once for each head,
// from the head's layer on: minutes for 135M parameters on two cores.
package heads
