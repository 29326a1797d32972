// Package draft proposes tokens for the engine to verify. The draft sources are the
// text so far, tokens that the model found likely, and the outputs of earlier
// requests.
//
// A [Mode] selects the sources. A [Drafter] serves one sequence. All sequences of a
// model share a [Database] and an [Experience]. Package spec verifies each drafted
// token against the model's choice, so drafts never change a text.
//
// The engine chooses graph widths, runs the model, and reports to the Drafter which
// drafts were accepted. Package draft/baseline has the published drafters that the
// laboratory compares.
//
// # Adding a source
//
// To add a draft source, implement [spec.Source]. It needs
//
//   - its place in newBlend (blend.go), which adds it to the blend;
//   - a field of [Mode] and its row in terms (mode.go), and its value in [Default].
//
// A blend has at most four sources (maxSources in package spec), of which it uses
// three.
//
// # Invariants and locks
//
//   - A Drafter belongs to one goroutine. A Database and an Experience may be used
//     from several; each has one lock, and no code holds both.
//   - A Database is a source only inside its read method, which holds its lock.
//   - A failure of the database's files ends no request: drafts continue without them.
//
// Drafting a tree of 31 rows takes about 20 µs, plus the cache misses of the database.
// Committing one token takes a few µs. Neither drafting nor committing allocates memory
// after the first requests.
//
// # Why drafts are off by default
//
// Drafts make requests faster on average, but not every request. To measure how many requests
// become faster, recorded answers were replayed with the pass times of fitted phone profiles: once
// with the number of drafts chosen by these times, and once with one row per pass. On 8 Gen 2, the
// answers with drafts come 2.0 to 3.1 times as fast, and even the tenth of requests that gains
// least is at least 1.06 times as fast. On 8 Gen 3, where wider passes cost more, the answers come
// 1.45 to 1.92 times as fast. On 8 Gen 3, drafts slow down the tenth of requests that gains least:
// to 0.96 of its speed without drafts on Spec-Bench, and to 0.98 on paraphrased tweets (sdnpu-lab
// bench replay TRACES --draft default --db online --cost sd8gen2,sd8gen3).
//
// A short answer cannot recover the time of the first passes whose drafts were wrong.
// Two remedies against slow short answers were tried: assuming 5 to 20 % higher costs
// of wide passes did not help, and forbidding any loss beyond what the request has
// saved so far leaves no drafts at all. Two more graph widths, 32 and 8, also take 28 %
// more processor time to compile (135M model, emulator). If the device does not share
// constants, each further width needs another copy of the weights.
package draft
