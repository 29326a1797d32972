// Package draft drafts tokens for the engine from several sources: the text so far,
// tokens that the model found likely, and texts of earlier requests.
//
// A [Mode] selects the sources. A [Drafter] serves one sequence; a [Database] and an
// [Experience] are shared by all sequences of a model. Package spec verifies every
// drafted row against the model's choice, so drafts never change a text.
//
// The package chooses no graph width and runs no model: the engine does, and reports
// to the Drafter which drafts were accepted. Published drafters for comparison are in
// draft/baseline.
//
// # Adding a source
//
// A new draft source is a [spec.Source]. It needs
//
//   - its place in newBlend (blend.go), which adds it to the blend;
//   - a field of [Mode] and its row in terms (mode.go), and its value in [Default].
//
// A blend has at most four sources (maxSources of package spec); three are in use.
//
// # Invariants and locks
//
//   - A Drafter belongs to one goroutine. A Database and an Experience may be used
//     from several; each has one lock, and no code holds both.
//   - A Database is a source only inside its read method, which holds its lock.
//   - A failure of the database's files ends no request: drafts continue without them.
//
// A tree of 31 rows takes about 20 µs, plus the database's cache misses. Committing a
// token takes a few µs. Neither allocates once warm.
//
// # Why drafts are off by default
//
// Drafts pay on average and not for every request. Recorded answers were replayed with
// the pass times of fitted phone profiles, with rows chosen by that cost, and compared
// with one row per pass. On 8 Gen 2 the answers come 2.0 to 3.1 times as fast; the
// slowest tenth of requests gains a factor of 1.06 or more. On 8 Gen 3, where wider
// passes cost more, the answers come 1.45 to 1.92 times as fast. There the slowest tenth
// falls to 0.96 of its speed on Spec-Bench and to 0.98 on paraphrased tweets (sdnpu-lab
// bench replay TRACES --draft default --db online --cost sd8gen2,sd8gen3).
//
// A short answer cannot recover the passes that found its drafts wrong. Raising the
// assumed cost of wide passes by 5 to 20 % did not change that, and forbidding any loss
// beyond what the request has saved so far means no drafts at all. Two more graph
// widths, 32 and 8, also take 28 % more processor time to compile (135M, emulator) and,
// if the device does not share constants, another copy of the weights each.
package draft
