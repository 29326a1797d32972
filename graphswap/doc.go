// Package graphswap plans how a model's prefill and decode graphs share device
// memory: when each block's prefill graph is freed and its decode graph loaded.
//
// An NPU graph has a fixed number of rows. Prompts need many rows, verification and
// decode need few. If memory holds only one set of weights, the graphs must be
// switched block by block while other blocks compute.
//
// The package plans and never acts: costs go in, a [Plan] comes out. Loading and
// running graphs is the engine's work. The engine records what it did as a
// [Timeline], the type that the simulator returns too; [Timeline.Check] applies to
// both. A [Chooser] chooses a plan for one prompt on the graphs that were compiled;
// package session also chooses the graphs.
//
// # Plans
//
// [Plan].Steps lists the NPU's work in order, [Plan].Loads the loader's. A step waits
// until its graph is resident. A load waits for the step in its field After and for
// the load before it. Nothing else decides when something starts, so whoever runs a
// plan needs no policy. [Problem.Make] makes a plan by name, [Simulate] forecasts its
// timeline, and [Drive] runs the same event clock for an executor.
//
// # Costs
//
// A [Profile] holds the costs of a device; [Profile.Cost] binds one of its models.
// The profiles in devices/ come with the program and name their origin.
// [Cost.Problem] applies the costs to a prompt. Measured blocks replace the formulas.
//
// # Invariants
//
//   - equal problems give equal plans on every machine: effort is counted in
//     evaluated steps, not in time;
//   - a load overlaps only the work of other blocks, unless there is a spare slot;
//   - no step waits for a load that waits for that step;
//   - the package has no clock, file, goroutine or state.
//
// Planning takes less than a millisecond for 8 blocks and 16 chunks. README.md has
// figures and a map of which plan pays when; testdata/plans shows plans as text.
package graphswap
