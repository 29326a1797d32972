// Package engine runs a model on a device: it compiles or loads the model's
// graphs, keeps the cache of keys and values, and turns prompts into text. It
// is the one place where model, tokenizer, sampler and device meet; the device
// arrives as a parameter and may be any.
//
// # Two levels
//
// [Engine.Generate] answers a [Request] and may be called by many goroutines:
// as many as there are sequences run at once, the others wait. They queue the
// tokens that they want computed, and whoever gets hold of the device runs a
// pass with as many of the waiting rows as pay (planChunks): a row for each in
// turn, the rest for the first. So answers share passes with each other and
// with the prompts of others, if there is a width that fits, and nobody waits
// for the end of another one's prompt.
//
// Below it are passes: [Engine.Forward] runs a [Pass], which holds rows of
// several sequences and, per sequence, a tree of tokens; [Engine.Commit] then
// keeps the rows that were accepted, and [Engine.Truncate] takes committed ones
// back. The two levels are not mixed: passes have one caller at a time and none
// while a Generate runs.
//
// # Graphs
//
// The layers are cut into blocks, and each block exists in a few widths: many
// rows for prompts, few for single tokens. Where the device shares constants, the
// widths of a block are one image and cost its weights once; elsewhere every
// (block, width) is an image of its own. A pass runs
// on the smallest width that holds it; what is left over is padding, which sees
// nothing but itself. A prompt is cut into the widest passes and a remainder,
// for which the cheapest split is taken under one rule: a pass of w rows costs
// as much as w + 11 rows (passCost says why). The head is a graph of its own that runs
// only for rows whose logits are wanted. It gives the best 128 of each row by
// themselves, and the share of the first: draws that these determine read
// nothing else ([sampler.Sampler.SampleTop] says which), calibration takes the
// likeliest from there, and a whole row is read where a draw needs it.
//
// Drafts that calibrate learn from the head's rows for all of a prompt's tokens,
// which is the one source of drafts that costs the device time. So a prompt is
// calibrated only if what the head took per row so far, times its rows, is less
// than a share of the time that decoding takes by earlier outputs' lengths and
// times per token ([Calibration] tells, [Options].AlwaysCalibrate overrides).
// What was learned of one pass is put into the drafter's table while the device
// computes the next.
//
// # Exact width
//
// On some libraries a row's result depends on the width of the graph that
// computes it. There the text that comes of drafts may be another one than without
// them: which tokens are computed on which width depends on what was drafted, on
// costs and on other requests. [Engine.MeasureFlips] tells how often the likeliest
// token differs. [Options].Exact leaves nothing of that open:
//
//   - each token behind the prompt is computed on graphs of one width, the
//     narrowest of the options (the wide ones where a plan has no others), with
//     drafts or without;
//   - passes of prompts hold nothing but one prompt's rows, cut by how many there
//     are, and the head has that one width for them, too;
//   - graphs are not exchanged: plans that do are refused.
//
// So where a row's result depends neither on what else its pass holds nor on
// whether an earlier token lies in the cache or in the same pass, a request's
// text is to the bit that of the same request without drafts and alone, if both
// begin with as many cached tokens and graphs of the same context. What is taken
// from the cache is as it was computed then. It costs the choice of widths by what
// they take: a token alone is computed on as many rows as a full tree.
//
// # Plans
//
// With [Options].Plan every (block, width) is an image of its own and there are
// two widths: the wide graph for prompts, the narrow one for what follows. A
// plan of package graphswap says which of them a block has in the device when,
// and one execution at a time carries a plan out, for the prompt that it was
// made for. The NPU's lane, whoever holds the device, enters each block: it takes
// the graph that the plan wants and waits for one that is on its way, never
// working around it with another. The loader's, a goroutine of the execution,
// begins a load once the step before it is done and exchanges the block's graph
// while other blocks compute: freed before the load or, with a spare slot, after.
// Between them stands lanes: a block is run or exchanged, never both.
//
// A block on its narrow graph computes a chunk part by part. Keys and values of a
// part go into free slots, where the next part sees them, and the slots are zeros
// again behind the block. A plan may also send several chunks through a block
// before the next block gets them (a window): their hidden states wait on the
// host, their keys and values in the slots where they belong, committed when the
// chunk is through. A window has the device for itself; where other requests
// wait, plans go chunk by chunk, and rows of others go with them.
//
// Every mixture of graphs can be run, so a cancelled prompt leaves what it finds
// and the next plan begins with that. A load that fails brings the block's old
// graph back; if that fails too, the request that meets it ends, and the next one
// loads all programs anew. When the device has restarted, they are loaded anew at
// once and the pass runs again, once. Keys and values are the host's: no text is
// lost. Once loads of three plans in a row have failed,
// no more plans are made: prompts run on what is there.
//
// The plan auto is chosen anew for each prompt where graphs have to be exchanged,
// by what is resident, the prompt's length and those of earlier answers. The
// choice is among plans of the blocks and widths that were compiled; a session
// that would be better off with others is not told so.
//
// Some time after the last request ([Options].IdleSwitch) the wide graphs come
// back, block by block from the first on, if the usual prompt (the median of the
// last 16) is answered sooner by that by 5 %: below break-even the narrow ones
// stay. A request that comes meanwhile waits for the load that goes on, no more,
// and its plan begins with what that left. Where calls take a time that does not
// pass here, nobody can be idle.
//
// Costs are those that the options give or what each graph took when it was
// first loaded and run, corrected by what plans turn out to take. On a device
// whose calls take a time that does not pass here, a plan runs on graphswap's
// event clock, on one goroutine.
//
// # The cache
//
// Keys and values live in the host's memory, in buffers that every width binds.
// With graphs for C past tokens sequence i owns the slots [i·C,(i+1)·C), its
// tokens in order of position; graphs see the slots of all sequences, and the
// mask tells whose they are. A pass writes nothing there: a rejected draft costs
// nothing, an accepted branch is a gather of rows, and what fails or is
// cancelled leaves the state before it.
//
// # Growth
//
// C begins with [Options].FirstContext and doubles up to Context, because a
// graph reads all its slots, used or not: short texts are faster on short
// graphs, and the first load is. Who needs more compiles or loads the next
// family beside the passes of others; keys and values move over in one copy
// between two passes, and the old family is freed. While both are there programs
// and cache take their place twice; a device that refuses that
// ([backend.ErrNoMemory]) has the old programs freed first, and they come back
// if the new ones do not. A growth that fails ends the request that needed it
// and nothing else. C never shrinks: a later, shorter text runs on what is
// there. The images of each family lie in the image cache with weights of their
// own, so five contexts take five times the disk. On a device that shares
// constants one image could hold a block in all of them for 1 % more than in one
// (SmolLM2, f16, 128 and 1 rows, 512 to 8192, emulator: 214.8 MB and 212.9), but
// all would be compiled for the first text, or the image again at each growth.
//
// At Context a request either ends or shifts: it drops the older half behind
// the tokens to keep, and computes the rest again at its new place. Keys are
// turned by their position and hold what was attended to, so moving them would
// be neither exact nor what a fresh prompt gives.
//
// # Invariants
//
//   - between passes unused slots hold zeros, so that nothing of an earlier text
//     remains;
//   - a row sees its own sequence's committed tokens, its ancestors in the pass
//     and itself, in order of position: on a device whose results do not depend
//     on a graph's rows, logits and cache are the same bits however a text was
//     cut into passes, and whatever else ran in them;
//   - the last token of a prompt is always computed, however much of it the
//     cache holds, because its logits are needed;
//   - one goroutine at a time runs programs, and one exchanges them. A graph that
//     runs cannot be interrupted: cancellation is honoured between graphs.
package engine
