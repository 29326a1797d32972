// Package contact checks a device that the program has not run on before. It
// exercises everything that the program needs and reports each result.
//
// # Steps
//
//   - open: read the device's capabilities;
//   - tokens: compare greedy texts with recorded ones, or with the float device if
//     none are recorded for the model;
//   - commit: time the engine's gathering of accepted keys and values;
//   - copies: time the host's writes, reads and gathers in memory that graphs bind;
//   - graphs: time the load and the run of each graph at each width, alone, and
//     runs during a load;
//   - profile: turn the times into a device profile of kind "measured".
//
// After a failed step the steps that do not depend on it still run. The report is
// saved after each step, so a device that crashes the process loses one step only.
// A step that could not run reports that as its error.
//
// # Clocks
//
// Graph times are the device's if it keeps the time of a device profile (Graphs.Paced), otherwise
// the host's from call to return. Commits and copies are always timed by the host. Report.Subject
// states in one sentence what was measured, so that a reader cannot mistake figures of an emulator
// or of the float device for figures of an NPU.
package contact
