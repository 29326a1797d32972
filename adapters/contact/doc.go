// Package contact meets a device for the first time: it tries whatever the
// program needs of it, step by step, and writes down what came of each.
//
// # What is tried
//
//   - open: the device says who it is;
//   - tokens: greedy texts against the ones recorded for the models that come
//     with the program, else against the float device;
//   - commit: keys and values of accepted rows, gathered by the engine;
//   - copies: the host's writes, reads and gathers in memory that graphs bind;
//   - graphs: load and run of every graph in every width, each alone, and runs
//     while a load goes on;
//   - profile: the figures as a device profile of the kind "measured".
//
// A step that fails stops none that does not need what it would have given, and
// the report is saved after each: a device that takes the process with it leaves
// what came before. A step that had to be left out says so as its error.
//
// # Whose time
//
// Times of graphs are the device's where that keeps another one's time
// (Graphs.Paced), else the host's from call to return. Commits and copies are
// always the host's. Report.Subject says in one sentence what was met, so that
// figures of an emulator or of the float device are never taken for an NPU's.
package contact
