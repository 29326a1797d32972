// Package draft puts the sources of drafted tokens together: the text so far,
// the model's own second thoughts, texts of earlier requests.
//
// A [Mode] says which; a [Drafter] serves one sequence with it, and a
// [Database] is what all sequences of a model remember together. What is
// drafted never changes what is said: package spec checks every row against the
// model's choice.
//
// # Why nothing is drafted unless somebody asks for it
//
// Drafts pay on the mean and not for everyone. With passes charged as fitted
// profiles of phones say and rows chosen by that cost, recorded answers come 2.0 to
// 3.1 times as fast as one row at a time on 8 Gen 2, the worst tenth of requests
// 1.06 times and better. On 8 Gen 3, where wider passes cost more, they come 1.45 to
// 1.92 times as fast, but the worst tenth of Spec-Bench's takes 1/0.96 of the time
// and that of paraphrased tweets 1/0.98 (sdnpu bench replay TRACES --draft default
// --database online --cost sd8gen2,sd8gen3). A short answer has no time to make up
// for the passes that showed that its drafts are wrong: a margin for dearer passes
// of 5 to 20 % did not change that, and no loss beyond what a request has saved so
// far means no draft at all. Two more widths of graphs, 32 and 8, take 28 % more
// processor time to compile (135M, emulator), and another copy of the weights each
// where a device does not share them.
//
// It chooses no width and runs no model: the engine does, and tells a Drafter
// what became of its drafts. A Drafter belongs to one goroutine; a Database is
// locked while a tree is drawn from it, and lives in memory or in files.
package draft
