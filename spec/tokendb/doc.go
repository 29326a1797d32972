// Package tokendb keeps texts on disk as tokens and counts which tokens followed a
// context in them. It is a source of drafts (spec.Source) that outlives the process,
// and the only package below spec with files.
//
// A database is a folder with a log of the latest documents, which a [DB] indexes in
// memory, and immutable segments, which are mapped and searched in place. The
// MANIFEST names both. A query counts over log and segments together what spec.Index
// would count of the same texts, for contexts of up to eight tokens. Lists end after
// 24 successors.
//
// # A segment
//
// The text section holds the tokens of all documents, with a separator before each document that no
// context crosses. The order section is a suffix array read backwards: the places of all tokens,
// ordered by the tokens before them, the newest first. So the places of a context are consecutive
// and include the places of every longer context. Each look-up narrows the range for the next
// length.
//
// Successors of contexts with more than 32 places are counted when the segment is built and stored
// in a hash table. Rarer contexts are counted during the query. Their places are found by binary
// search among the places of the context one token shorter. Every 32nd of these has its preceding
// token stored (a fence).
//
// No file holds a pointer. Sections begin at page boundaries and have checksums of
// their own. A token takes two bytes if the vocabulary allows it, else three.
//
// # Invariants
//
//   - When Commit returns, the document is on disk. If the process or the machine
//     stops at any write or flush, the next process finds a prefix of the committed
//     documents, each one complete, and nothing else.
//   - Only the log's end ever changes. A change writes new files and then a new
//     MANIFEST; files that the MANIFEST does not name are removed.
//   - One writer holds LOCK. Any number of readers keep their mapped files until
//     [DB.Refresh].
//   - A merge of segments may drop a document of which nine tenths occur in a newer
//     one. If the database is full, the oldest documents are dropped.
//   - When Forget returns, the document is in no file of the database. (The file
//     system may keep blocks of removed files.)
//   - Contents without a valid checksum, databases of another tokenizer and foreign
//     folders are rejected. Reading a segment is safe even if the file is damaged.
//
// # Cost
//
// On disk a token takes 6 to 8 bytes. Memory holds the log (32768 tokens of about 55
// bytes) and, while a segment is built, 30 bytes per token of it. Opening reads every
// byte once for its checksum. A query of up to eight lengths touches about ten
// scattered cache lines and allocates nothing once warm. A full log is merged with
// segments of up to four times its size.
package tokendb
