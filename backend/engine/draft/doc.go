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
// Drafting a tree of 31 rows takes about 20 µs, and additional time for cache misses of
// the database. Committing one token takes a few µs. Neither drafting nor committing
// allocates memory after the first requests.
//
// # Why automatic drafts are the default
//
// Drafts make requests faster on average, but not every request. Recorded answers were replayed
// with the pass times of fitted phone profiles, and the number of drafts was chosen by these times.
// On 8 Gen 2, even the tenth of requests that gains least was 1.06 times as fast. On 8 Gen 3, where
// wider passes cost more, that tenth fell to 0.96 of its speed without drafts on Spec-Bench, and to
// 0.98 on paraphrased tweets (sdnpu-lab bench replay TRACES --draft default --db online --cost
// sd8gen2,sd8gen3): a short answer cannot recover the time of the first passes whose drafts were
// wrong. Neither assuming 5 to 20 % higher costs of wide passes helped, nor forbidding any loss
// beyond what the request has saved so far, which leaves no drafts at all. [Auto] therefore bounds
// the loss by an account of each request and of all requests, and begins with two rows.
//
// The keys of a model set the product's default: sdnpu.draft is auto, and the keys for plans and
// recipes are auto as well. The zero [Mode] drafts nothing, and so do the engine's zero options. They
// correspond to sdnpu.mode=plain: no decision of such an engine depends on measured times.
package draft
