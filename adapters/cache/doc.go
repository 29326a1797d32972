// Package cache holds the work of the commands that list, verify and clear the image
// cache: it describes images and measured results as [Entry], selects entries by the
// name of a model or by a key, and removes them.
//
// Package backend/imagecache keeps the images, and package findings keeps the results.
// Package cache prints nothing.
//
// # Invariants
//
//   - An image that a process uses is never removed.
//   - An entry that cannot be removed, or an image that cannot be read, does not keep a
//     command from processing the other entries.
package cache
