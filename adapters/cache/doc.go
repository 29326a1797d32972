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
//   - If an entry cannot be removed or read, the command still processes the other entries.
package cache
