// Package imagecache keeps compiled images in a folder, so that a model is
// compiled for a device once and not at every start.
//
// A [Store] maps keys to bytes and knows neither devices nor models: whoever
// builds the key puts everything into it that decides whether an image is
// still valid. What people want to read about an image stands in its [Label],
// which decides nothing. Deleting files, or the whole folder, is always safe,
// also while a program runs on an entry (on Windows the system refuses that
// one).
//
// # A file
//
// "<key>.image" is a header of [headerSize] bytes and the image. The header
// names format, key, length, label and the image's checksum, and ends with a
// checksum of itself, so that no bit of a file can change unseen. Its size
// keeps the image on a page of its own in the mapping: devices use it in place.
// The file's time is that of its last use. Files "put-….tmp" are being written,
// "<key>.lock" are held by who makes an image.
//
// # Invariants
//
//   - an entry is whole or not there: it is written beside its place, flushed
//     to the disk, renamed, and the folder is flushed too;
//   - [Store.Get] hands out only what it has just checked; a damaged or foreign
//     file is removed, reported as [ErrMiss] and named in a warning;
//   - an open [Entry] is never removed by this package, in whatever process:
//     it is locked until it is closed, by its process's end at the latest;
//   - adding an image removes those used least recently until the folder keeps
//     its limit; where all that is left is in use, the limit is exceeded;
//   - processes may share the folder. [Store.Lock] lets one of them make an
//     image while the others wait; two that write one key without it both
//     succeed and one of the two files stays. What a process that died left
//     behind is removed by a later [Open], a minute after its last write.
//
// On file systems without locks, and on systems other than Linux, macOS,
// FreeBSD and Windows, nothing is known to be in use: removing is still safe
// there, work may be done twice, and leftovers go after a day.
//
// Get costs one pass over the bytes on all cores (SHA-256: about 0.3 s per GB
// on two that have instructions for it), which also brings them into memory,
// where loading needs them next.
package imagecache
