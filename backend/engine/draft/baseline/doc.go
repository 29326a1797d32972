// Package baseline has the drafters that papers describe, as implementations of
// [draft.Proposer]: prompt lookup, the suffix automaton, and sd.npu's pipeline of
// both with calibration and draft extension.
//
// The laboratory compares the product's blend of sources with them. The product
// must not import this package. [Parse] reads their names; a mode that it returns
// goes into the engine's options like any other.
//
// # Invariants
//
//   - Nothing is learned: scores are fixed, and equal texts give equal trees.
//   - Trees obey the rules of [spec.Tree]: parents first, distinct siblings,
//     scores that never grow from a row to its children.
//
// Prompt lookup scans the text for each proposal. The automaton takes constant
// time per token. The paper's tree takes time quadratic in its candidates, of
// which there are a few dozen.
package baseline
