// Package tokendb stores texts on disk as tokens and counts which tokens followed each
// context in them. A database is a source of drafts (it implements spec.Source) that
// outlives the process. Of the packages spec, calibration and tokendb, only tokendb uses
// files.
//
// A token database is a folder with a log and segments. The log of a database has the
// latest documents, which a [DB] also indexes in memory. Segments of a database are
// immutable files, which are mapped into memory and searched there. A file named MANIFEST
// lists the log and the segments. A query of a database returns the counts of the log and
// all segments together. For contexts of up to eight tokens, the counts of a query equal
// those that one spec.Index of all texts in the database would return. A list of successors
// has at most 24 entries.
//
// # A segment
//
// A segment's text section holds the tokens of all its documents, with a separator before
// each document; no context reaches across a separator. A segment's order section works
// like a suffix array, read backwards: it lists the positions of all tokens, sorted by the
// tokens before each position, the newest first. In the order section, all positions of one
// context are consecutive. The positions of a context are among the positions of every
// shorter context at its end. A query looks up the context of one token, then of two
// tokens, and so on; each look-up narrows the range of positions for the next.
//
// If a context has more than 32 positions, its successors are counted when the segment is
// built, and stored in a hash table in the segment. If a context has at most 32 positions,
// the query itself counts its successors. The positions of a rare context are found by
// binary search among the positions of the context that is one token shorter. For every
// 32nd position of a context the segment stores the preceding token (a fence), so that the
// search touches few pages.
//
// Database files contain no pointers. Each section of a segment begins at a page
// boundary and has its own checksum. A token in a segment takes two bytes if the
// vocabulary allows it, otherwise three.
//
// # Invariants
//
//   - When Commit returns, the document is on disk.
//     If the process or the machine stops during a write or flush, the next process
//     finds the first documents that were committed, each one complete, and nothing else.
//   - Files are never changed in place; only the log grows at its end.
//     To replace files, the database writes new files and then a new MANIFEST.
//     Files that the MANIFEST does not name are removed.
//   - The process that writes holds a lock on the file LOCK, so at most one process writes.
//     Any number of processes may read; a reader keeps its mapped files until it calls
//     [DB.Refresh].
//   - A merge drops a document if nine tenths of its text occur in a newer document.
//     If the database exceeds its size limit, the oldest documents are dropped.
//   - When Forget returns, no file of the database contains the forgotten documents.
//     (The file system may keep blocks of removed files.)
//   - Damage in the log costs only the records that it hits. The next process that writes
//     to the database copies the undamaged records to a new log. The process that writes
//     next keeps the damaged log in a file "damaged-…", which Forget and Purge remove. Only
//     an incomplete record at the end, which a stopped process leaves, is cut off.
//   - A process writes only to a folder that no other user can change (package trust).
//     The database never changes the mode of a folder that exists, and follows no symbolic link in
//     the folder.
//   - Open rejects a wrong checksum, another tokenizer and folders with foreign files.
//     Reading a segment never panics, even if its file is damaged.
//
// # Cost
//
// On disk, with all sections, a token takes 6 to 8 bytes. In memory the database holds
// the log (at most 32768 tokens of about 55 bytes each), and while it builds a segment,
// 30 bytes per token of the segment. Opening a database reads every byte once to verify
// checksums. A query for all eight context lengths touches about ten cache lines and
// allocates no memory after the first queries. When the log is full, it is merged with
// segments of up to four times its size.
package tokendb
