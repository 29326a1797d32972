// Package conversation executes whole conversations with the engine on the emulator's
// virtual clock: once with plan auto, which changes blocks, widths and residency between
// requests, and once with each fixed configuration. The regret of a conversation is the
// time of plan auto divided by the time of the best fixed configuration.
//
// Times are those of a phone's profile. They contain prompts, loads that a request waits
// for, decoding and, per pass with drafts, the profile's time for drafting. Loads in pauses
// count as far as they last longer than the pause. Compiling images does not count: a
// change is made after its images are compiled.
//
// The emulator reads its settings once per process, so each setting needs its own process.
package conversation
