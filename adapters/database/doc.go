// Package database fills, inspects and cleans token databases for the commands
// and opens them with advice in their errors.
//
// The database itself is spec/tokendb, which knows token ids only. This package
// knows models' vocabularies and text files: it reads texts, encodes them and
// finds conversations by their content. It prints nothing.
//
// # Invariants
//
//   - A file is imported completely or not at all.
//   - A conversation is identified by the content of its file, so that a renamed
//     file is not imported again.
//   - A database is created when there is something to put into it, never for a
//     file that cannot be read.
//
// # Cost
//
// Import holds the tokens of one file in memory. Forget rewrites the segments of
// the conversations that it removes.
package database
