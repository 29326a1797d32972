// Package execute carries out graphswap's plans with the engine on a device that
// keeps a phone's time, to see whether they take what was foretold.
//
// A model of a few kilobytes, with as many layers as the big one, stands in for
// it: the emulator charges what the big one would take. A plan's predicted and
// executed times then differ by what the plumbing costs or gets wrong, and by
// nothing that a phone would do otherwise: agreement says that the engine does
// what the plan says, not that a phone is as the profile says.
//
// The emulator reads once per process whose time it keeps, so [Processes] starts
// one for every plan. Where that time passes on this machine's clock, a run whose
// calls were late is repeated on a slower device.
package execute
