// Package chain runs texts through a model one layer at a time.
//
// The engine keeps a whole model on its device; a chain keeps one layer, and the hidden
// states of all its texts. So it can measure models that do not fit: the ranges of
// activations ([Calibrate]), and the effect of another recipe or device after each layer
// ([Compare]). It generates no text.
//
// # Invariants
//
//   - Each text is a sequence of its own, from position 0.
//   - A layer's graph is compiled, loaded, run over all texts and closed before the next
//     one is written. A failure leaves nothing open.
//   - Padding rows are never reported.
//
// # Cost
//
// The device holds one layer and its KV cache for one text. The host holds hidden × 2 or
// 4 bytes per token of all texts. A Chain belongs to one goroutine.
package chain
