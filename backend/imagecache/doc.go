// Package imagecache keeps compiled images in a folder, so that a model is
// compiled for a device once and not at every start.
//
// A [Store] maps keys to bytes and knows neither devices nor models: whoever
// builds the key puts everything into it that decides whether an image is
// still valid. There is no limit and no eviction; deleting files, or the whole
// folder, is always safe, also while a program runs on an entry (on Windows the
// system refuses that one).
//
// # A file
//
// "<key>.image" is a header of [headerSize] bytes and the image. The header
// names format, key, length and the image's SHA-256, and ends with a checksum
// of itself. Its size keeps the image on a page of its own in the mapping:
// devices use it in place.
//
// # Invariants
//
//   - an entry is whole or not there: it is written beside its place, flushed
//     to the disk, renamed, and the folder is flushed too;
//   - [Store.Get] hands out only what it has just checked; a damaged or foreign
//     file is removed, reported as [ErrMiss] and named in a warning;
//   - processes may share the folder: two that write one key both succeed and
//     one of the two files stays. What a process that died left behind is
//     removed by a later [Open]: a minute after its last write where the
//     system tells that nobody holds it (not Windows), else a day after.
//
// Get costs one pass over the bytes (SHA-256: about 0.2 s for 300 MB where the
// processor has instructions for it), which also brings them into memory, where
// loading needs them next.
package imagecache
