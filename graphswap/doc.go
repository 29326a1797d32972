// Package graphswap decides when each block of a partitioned model leaves its
// long prefill graph for its short decode graph, and foretells what that takes.
//
// An NPU's graph has a fixed number of rows. A prompt wants many, the
// verification of a draft few, and where memory holds only one set of weights
// the graphs have to be exchanged: block by block, while other blocks compute.
//
// The package plans and never acts: costs go in, a [Plan] comes out, and equal
// costs always give equal plans. It has no clock. Loading and running graphs is
// the engine's work, and what the engine did it writes down as a [Timeline], the
// type that the simulator fills too; [Check] holds for both.
//
// # A plan
//
// [Plan].Steps is the NPU's work in its order, [Plan].Loads the loader's. A step
// names the graph that it runs on and waits until that is resident. A load waits
// until the step After has ended, and for the load before it. Nothing else
// decides: who executes a plan needs no policy. Loads are listed such that no
// step waits for a load that waits for the step.
//
// [Problem.Make] makes a plan by name, from the published rules to the default
// (descent) and the reference (exact). [Simulate] foretells one; [Drive] is the
// same event clock for whoever really executes it. [Chooser] decides for a
// session which plan a turn gets, on which partition and widths; one made by
// [NewPlanChooser] keeps to the graphs that a session has.
//
// # Costs
//
// A [Profile] holds a device's costs, [Profile.Cost] binds a model of it. The
// profiles that come with the program are in devices/, with their origin.
// [Cost.Problem] applies them to a prompt; measured blocks replace the formulas.
//
// Planning takes below a millisecond for 8 blocks and 16 chunks; the effort is
// counted in looks at steps, so equal problems get equal plans on any machine.
// README.md has figures, and the map of which plan pays where.
package graphswap
