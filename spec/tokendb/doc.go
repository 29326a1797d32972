// Package tokendb keeps texts on disk, as tokens, and tells what followed any
// context in them: a source of drafts (spec.Source) that outlives the process.
// It is the one place below spec with files.
//
// A database is a folder: a log of the latest documents, which a [DB] indexes in
// memory, and immutable segments, which are mapped and searched where they lie.
// The MANIFEST names both. What a query counts is what spec.Index counts of the
// same texts, contexts of up to eight tokens, over log and segments together;
// lists stop after 24 successors.
//
// # A segment
//
// The tokens stand in a row, a separator in front of each document, which no
// context reaches across. Beside them stands their suffix array, read backwards:
// the places of all tokens, ordered by what stands before them, the newest token
// first. So the places of a context lie together, and those of a longer one
// among them: one look-up narrows from length to length. What followed contexts
// with more than 32 places was counted when the segment was made and stands in a
// hash table; rarer ones are found among the places of the context one token
// shorter, by every 32nd token before it, and counted at once. Nothing in a file
// is a pointer, sections begin at pages and have checksums of their own, and
// tokens take two bytes where the vocabulary allows it, else three.
//
// # Invariants
//
//   - Commit returns when the document is on disk; a document is there whole or
//     not at all, and whatever write or flush a process ends at, the next one
//     finds all that was committed until some moment and nothing else;
//   - files are never changed but for the log's end: a change writes new ones and
//     then a new MANIFEST; what that does not name is removed;
//   - there is one writer, who holds LOCK, and any number of readers, who keep
//     what they have mapped until [DB.Refresh];
//   - a document that a newer one repeats (nine tenths of it) may go when segments
//     are merged; else the oldest go when the database is full;
//   - a forgotten document is on the disk no more when Forget returns (what the
//     file system keeps of removed files is beyond us);
//   - bytes that no checksum vouches for, another tokenizer's and others' folders
//     are refused, and whatever the bytes of a segment are, reading it is safe.
//
// # Cost
//
// 6 to 8 bytes per token on disk, next to nothing in Go's memory but for the log
// (32768 tokens of some 55 bytes) and, while a segment is made, 30 bytes per
// token of it. Opening reads every byte once for its sum. A query of up to eight
// lengths touches some ten scattered cache lines, and allocates nothing once
// warm. A full log is merged with the segments up to four times its size.
package tokendb
