// Package draft puts the sources of drafted tokens together: the text so far,
// the model's own second thoughts, texts of earlier requests.
//
// A [Mode] says which; a [Drafter] serves one sequence with it, and a
// [Database] is what all sequences of a model remember together. What is
// drafted never changes what is said: package spec checks every row against the
// model's choice.
//
// It chooses no width and runs no model: the engine does, and tells a Drafter
// what became of its drafts. A Drafter belongs to one goroutine; a Database is
// locked while a tree is drawn from it, and lives in memory only.
package draft
