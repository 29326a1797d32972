// Package spec proposes what a model may say next and checks it against what
// the model says: speculative decoding by retrieval.
//
// A verification graph has a fixed number of rows and takes the same time
// whether they are used or not. This package fills them with a [Tree] of
// drafted tokens that stand in the text so far, or in earlier texts, after the
// words that the text ends with. What the model would not have said is dropped,
// so drafts change the time and never the text.
//
// It knows tokens only: no model, device, clock or file.
package spec
