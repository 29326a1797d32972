// Package engine runs a model on a device: it compiles or loads the model's
// graphs, keeps the cache of keys and values, and turns prompts into text. It
// is the one place where model, tokenizer, sampler and device meet; the device
// arrives as a parameter and may be any.
//
// # Two levels
//
// [Engine.Generate] answers a [Request] and may be called by many goroutines:
// as many as there are sequences run at once, pass by pass in turn, the others
// wait. Below it are passes: [Engine.Forward] runs a [Pass], which holds rows of
// several sequences and, per sequence, a tree of tokens; [Engine.Commit] then
// keeps the rows that were accepted, and [Engine.Truncate] takes committed ones
// back. The two levels are not mixed: passes have one caller at a time and none
// while a Generate runs.
//
// # Graphs
//
// The layers are cut into blocks, and each block exists in a few widths: many
// rows for prompts, few for single tokens. Every (block, width) is an image of
// its own, so that they can be loaded and freed one by one later. A pass runs
// on the smallest width that holds it; what is left over is padding, which sees
// nothing but itself. A prompt is cut into the widest passes and a remainder,
// for which the cheapest split is taken under one rule: a pass of w rows costs
// as much as w + 11 rows (passCost says why). The head is a graph of its own that runs
// only for rows whose logits are wanted.
//
// # The cache
//
// Keys and values live in the host's memory, in buffers that every width binds.
// Sequence i owns the slots [i·Context,(i+1)·Context), its tokens in order of
// position; graphs see the slots of all sequences, and the mask tells whose
// they are. A pass writes nothing there: a rejected draft costs nothing, an
// accepted branch is a gather of rows, and what fails or is cancelled leaves
// the state before it.
//
// # Invariants
//
//   - unused slots hold zeros, so that nothing of an earlier text remains;
//   - a row sees its own sequence's committed tokens, its ancestors in the pass
//     and itself, in order of position: on a device whose results do not depend
//     on a graph's rows, logits and cache are the same bits however a text was
//     cut into passes, and whatever else ran in them;
//   - the last token of a prompt is always computed, however much of it the
//     cache holds, because its logits are needed;
//   - one goroutine at a time runs programs. A graph that runs cannot be
//     interrupted: cancellation is honoured between graphs.
package engine
