// Package profile turns measurements of a model on a device into a profile of
// package graphswap, of the kind "measured", and keeps it in a folder.
//
// A profile has the measured times themselves, which hold for the blocks and
// widths that were measured, and parameters fitted to them, by which plans for
// other blocks and widths are foretold. What one partition cannot tell apart
// (the fixed cost of a run and that of its layers) stands with the layers.
package profile
