// Package calibration counts the tokens that a model found likely, so that drafts
// can use the model's own words.
//
// A retrieved text has its author's words, but the model often uses other words. Running the head
// for a row of the prompt gives the next-token distribution of its position. Verified rows have a
// distribution anyway, at no extra cost. A [Table] counts the most likely tokens of each position,
// weighted by their probability, for the contexts that end there. This is in-context distribution
// calibration (sd.npu section 4.3, where contexts are single tokens of the prompt). Drafts add
// these counts to the counts of the tokens that really followed. A [Row] reads these tokens from
// all logits, or from the top-k of the device.
//
// The package only contributes to drafts and never chooses a token, so it cannot
// change a text. It uses no clock, file or device.
//
// # Invariants
//
//   - Counts never grow along a list of successors.
//   - Probabilities outside (0,1], and rows that are no distribution, add nothing.
//
// # Cost
//
// A position costs about 30 updates, 2 µs. Reading 49152 logits takes about 0.1 ms.
// Tables begin empty with each request and allocate only when they grow.
package calibration
