// Package imagecache keeps compiled images in a folder, so that a model is compiled for a
// device once and not at every start.
//
// A [Store] maps keys to images. It knows neither devices nor models: the caller puts
// everything into the key that decides whether an image is still valid. A [Label]
// describes an image for people and decides nothing. Deleting files, or the whole folder,
// is always safe, even while a program uses an image. (Windows refuses to delete that
// file.)
//
// # A file
//
// "<key>.image" is a header of [headerSize] bytes followed by the image. The header holds format,
// key, length, label and the image's checksum, and ends with its own checksum, so any changed bit
// is found. Its size aligns the image to a page of the mapping, because devices use it in place.
// The file's modification time records its last use. Files "put-….tmp" are being written. A process
// that makes an image holds "<key>.lock".
//
// # Invariants
//
//   - An entry is complete or absent: it is written to a temporary file, flushed and
//     renamed, and the folder is flushed.
//   - [Store.Get] returns only an image that it has just checked. It removes a damaged or
//     foreign file, logs a warning and returns [ErrMiss].
//   - This package never removes an open [Entry], in any process: the file is locked until
//     Close or the end of its process.
//   - Adding an image removes the least recently used ones until the folder is within its
//     limit. If all remaining images are in use, the limit is exceeded.
//   - Processes may share the folder. With [Store.Lock], one of them makes an image while
//     the others wait. Without it, two processes may write a key; both succeed and one
//     file stays. A later [Open] removes the files of a dead process, a minute after its
//     last write.
//
// On file systems without locks, and on systems other than Linux, macOS, FreeBSD and
// Windows, the package cannot tell which files are in use. Removing is still safe there,
// work may be done twice, and old temporary files are removed after a day.
//
// # Cost
//
// Get reads the image once on all cores (SHA-256: about 0.3 s per GB on two cores with
// instructions for it). That also brings it into memory, where loading needs it next.
// A Store has no lock of its own: files are the only shared state.
package imagecache
