// Package chain sends texts through a model one layer at a time.
//
// The engine keeps a whole model on its device; a chain keeps one layer, and the
// hidden states of all its texts. So it measures models that do not fit: what
// activations were ([Chain.Layer] shows every output of a layer's graph), and,
// with a second chain beside it, what another recipe or device makes of the same
// texts after each layer.
//
// # Invariants
//
//   - a text is one sequence from position 0 and sees nothing of the others;
//   - a layer's graph is compiled, loaded, run over all texts and closed before
//     the next one is written: a failure leaves nothing behind;
//   - rows that only fill a graph up are never shown.
//
// # Cost
//
// Memory is one layer on the device, its cache for one text, and hidden × 2 or 4
// bytes for each token of all texts.
package chain
