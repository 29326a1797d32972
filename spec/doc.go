// Package spec proposes what a model may say next and checks it against what
// the model says: speculative decoding by retrieval.
//
// A verification graph has a fixed number of rows and takes the same time
// whether they are used or not. This package fills them with a [Tree] of
// drafted tokens that stand in the text so far, or in earlier texts, after the
// words that the text ends with. What the model would not have said is dropped,
// so drafts change the time and never the text.
//
// It knows tokens only: no model, device, clock or file. It does not choose a
// width, and it remembers nothing beyond the texts that an [Index] was given.
//
// # Invariants
//
//   - a row's parent stands before it, and siblings carry different tokens;
//   - a tree is the same for the same texts, weights and number of rows;
//   - [Verify] asks for one token per emitted one, in order, with any tree.
//
// A token costs an index a few table look-ups and some fifty bytes, a tree of
// 31 rows about 20 µs; neither allocates once warm, but when a table grows.
package spec
