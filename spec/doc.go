// Package spec drafts the next tokens of a text and verifies drafts against the
// model's choices: speculative decoding by retrieval.
//
// A verification graph has a fixed number of rows and takes the same time whether
// they are used or not. A [Drafter] fills the rows with a [Tree] of tokens that
// followed the end of the text elsewhere: earlier in the text, or in other texts
// that a [Source] knows. [Verify] keeps the path that the model chooses too, so
// drafts change the time and never the text.
//
// The package knows tokens only: no model, device, clock or file. It does not
// choose a graph width, and it remembers only the texts that an [Index] was given.
//
// # Invariants
//
//   - Trees: a row's parent precedes it, and siblings have different tokens.
//   - Equal texts, weights and numbers of rows give equal trees.
//   - [Verify] asks for one token per emitted token, in order, with any tree.
//
// # Cost
//
// A token costs an [Index] a few table look-ups and about 50 bytes. A tree of 31
// rows takes about 20 µs. Neither allocates once warm, except when a table grows.
package spec
