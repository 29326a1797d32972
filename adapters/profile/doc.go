// Package profile turns measurements of a model on a device into a profile of
// package graphswap, of the kind "measured", and keeps it in a folder.
//
// A profile holds the measured times, which are exact for the measured blocks and
// widths, and parameters fitted to them, which forecast other blocks and widths.
// One partition cannot separate the fixed cost of a run from the cost of its
// layers: the profile charges both to the layers.
//
// The package measures nothing itself: backend/engine does. Fitting takes
// microseconds; a folder is read and written one file at a time.
package profile
