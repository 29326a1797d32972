// Package engine runs a model on a device: it loads the model's graphs, keeps the KV
// cache, and turns prompts into text. Only package engine connects model, tokenizer,
// sampler and device. The engine runs on any [backend.Device].
//
// [Engine.Generate] answers a [Request]. Several goroutines may call Generate at the
// same time. A caller can also compute passes itself: [Engine.Forward] runs a [Pass]
// with rows of several sequences and a token tree for each, [Engine.Commit] keeps
// accepted rows, and [Engine.Truncate] drops tokens. Only one goroutine at a time may
// call Forward, and none during a call of Generate.
//
// docs/engine.md gives reasons and figures for passes, calibration, exact width, graph
// switching and growth of the context.
//
// # The loop
//
// loop.go contains the central loop: next batch, blocks, head, verify, commit. Each
// request puts its tokens into the request queue. The goroutine that gets the device
// lock takes rows of several requests: first one row of each request, then more rows of
// the earliest ones. The goroutine with the device lock adds drafts and runs the batch.
// After the batch, it hands each request its rows and waits: each request verifies its
// drafts, draws its next token and commits rows on its own goroutine. The device lock
// is released when all these requests have settled, so outputs stay valid while
// requests read them. If a request is cancelled after a pass has taken rows of it, the
// request settles these rows before it ends.
//
// Each block of a decode token is reached from Generate by a call stack of eight
// functions (generate, decode, compute, runNextPass, computeRows, forward, runBlock,
// runGraph); runGraph calls the device's Program.Run. The call stack of the head is
// deeper; see head.go. If the device's calls take no time (virtual time), drive.go runs
// a prompt that has a plan, in place of runBlock.
//
// # Where things are
//
//   - kvcache: keys and values, and all arithmetic on their places; buffers: hidden
//     states, angles and masks; arena: regions of device buffers; sequences: the
//     tokens of each sequence and its user;
//   - images: compiling, loading and measuring graphs; residency: which graphs of
//     which blocks are loaded, switching and freeing them;
//   - draft: proposing tokens; detok: text out of tokens, stop strings,
//     log-probabilities;
//   - workload: learned output lengths and pass times; power: votes for clocks;
//   - here, a request: api.go ([Request]), generate.go, chunks.go (how a prompt is
//     cut), queue.go, fill.go (which drafts a pass takes), batch.go, passrun.go
//     (blocks), head.go (logits), output.go (a request's part of a pass), verify.go
//     (drafts, which spec.Verify walks, and drawing tokens), grow.go (longer contexts),
//     ahead.go (longer contexts before a request needs them);
//   - here, graphs: shape.go (widths, blocks and plan of a graph set), alternatives.go
//     (shapes to start with), graphset.go, replace.go (another graph set);
//   - here, plans: plans.go decides which plan, planned.go starts it, and residency
//     carries it out. policy.go ([Policy] may decide instead), planoptions.go (what the
//     options allow), planreport.go, window.go and drive.go (several chunks of a plan),
//     idle.go (loads while no request runs).
//
// # Locks
//
// A goroutine that holds a lock of the list below may take only locks that are listed
// after it.
//
//  1. Engine.growing: its holder makes the next graph set (replace.go);
//  2. idleSwitch.mu: requests are counted, and idle time ends. It only tries the
//     device lock, and never waits for it;
//  3. Engine.deviceLock: its holder runs programs and uses buffers and the fields
//     that [Engine] lists under it. A request that settles rows uses them for the
//     holder, which waits;
//  4. Engine.headLock: the head's memory, while several requests read whole rows;
//  5. the locks of package residency;
//  6. the locks of the device, during Program.Run and Close: those of package hexagon,
//     then those of package qnn. The locks of residency are not held then;
//  7. requestQueue.mu, closing.mu, ahead.mu, and the locks of packages sequences, workload, power
//     and draft, none of which is held while another one is taken.
//
// # Invariants
//
//   - between passes, slots without a token are zero: nothing of an earlier text
//     remains;
//   - a row attends to its own sequence's committed tokens, its ancestors in the pass
//     and itself. On a device whose results do not depend on graph widths, logits and
//     cache are the same bits however a text was cut into passes and whatever else
//     ran in them;
//   - the last token of a prompt is always computed, because its logits are needed;
//   - one goroutine at a time runs programs, and one switches graphs. A running graph
//     cannot be interrupted: cancellation takes effect between graphs.
package engine
