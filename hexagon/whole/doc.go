// Package whole runs whole models through the engine on each QNN library that
// the machine has: our emulator, the vendor's x86-64 library for several chips,
// and the vendor's plain float library. It holds tests only.
//
// Each model runs in each recipe. What the recipe itself costs is told from what
// a library adds by a float device that computes the same graphs.
//
// A model runs in as many blocks as it has layers, or fewer, and what leaves
// each block is recorded between engine and device, so that the error against
// the float device is known layer by layer. Tokens are compared with teacher
// forcing: every library is given the float device's tokens and asked for the
// next, so that the first difference does not hide the others.
//
// testdata/models.md is the table of all that; models.json holds its rows, each
// written when it is measured, so that a part can be measured anew and a run that
// was ended goes on (-missing). make test-vendor-full writes both. Times in them
// are the host's and say nothing about a phone.
//
// The same libraries run every distinct node that graphs of any family in any
// recipe hold, each alone: testdata/emitted.md.
package whole
