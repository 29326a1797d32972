// Package session chooses graphs for a whole conversation: the partition and the
// widths, and when to change them.
//
// Package graphswap chooses the best plan for one prompt on given graphs. A
// [Session] also chooses the graphs. It learns from the turns how long prompts and
// answers are, and decides which widths to load before the first turn, when other
// widths will save more than their loads cost, and what to load in idle time.
// The package computes times from the cost model and loads nothing.
//
// Only the laboratory uses it today (`sdnpu-lab bench session`). The engine keeps
// the graphs that were compiled; the figures of this package do not describe the
// shipped `auto`.
//
// # Invariants
//
//   - equal turns lead to equal choices; there is no clock;
//   - widths change only after a loss: with the graphs in use, the turns so far must
//     have lost a share of the time that the change's loads take;
//   - if both graphs of every block are resident, no prompt waits for a change.
//
// A choice takes one plan per configuration, and each plan below a millisecond;
// plans of equal turns are remembered for the life of the session. A Session must
// not be used by two goroutines at once.
package session
