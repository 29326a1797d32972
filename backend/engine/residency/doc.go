// Package residency keeps track of which block graphs are loaded, and switches them
// as a plan of package graphswap says.
//
// A [Set] holds the graphs of all blocks at one context tier. A [Switcher] lets two
// lanes work on a set at the same time: passes run graphs on the NPU, and the loader
// of a [Run] loads and frees graphs. A Run carries out one plan, for the prompt that
// the plan was made for. [Costs] learns what loads and runs take, and a [Recorder]
// writes down what a Run did.
//
// The package makes no plans (package graphswap does) and computes no rows: its
// caller acquires a block, runs the graph that it gets, and releases the block.
//
// # How a block is switched
//
// The loader starts a load when the plan's step before it is done. Without a spare
// slot it first frees the block's other graph; with one it frees that graph after
// the load. If a load fails, the loader loads the old graph again. A pass that needs
// a graph waits in [Switcher.Acquire] while the graph is being loaded. If a block has
// no graph and none will be loaded, Acquire returns [ErrNotResident], and the caller
// must load all graphs again with [Set.Reload].
//
// After three plans in a row whose loads failed, [Switcher.Disabled] reports true and
// the engine makes no more plans.
//
// Run.freeGraph frees one graph during a plan, and [Set.Unload] frees all of them. Both
// end in Program.Close of the device.
//
// On a device whose time does not pass on the host's clock (virtual time), there is
// no loader: the caller runs steps and loads in the order of graphswap's event clock,
// with [Run.LoadNow] and [Run.FreeNow].
//
// # Invariants
//
//   - a block is run or switched, never both at once;
//   - a graph is freed only after the run that uses it has ended;
//   - at most one Run at a time loads graphs of a switcher;
//   - each mixture of loaded graphs is valid, so a cancelled plan needs no undo.
//
// # Locks
//
// Switcher.mu guards the switcher, the changing fields of its Runs, and which graphs
// of a block are bound. Costs.mu and Recorder.mu guard their own fields. None of them
// is held while another one is taken, except that Costs.mu may be taken under
// Switcher.mu. No lock is held while a graph runs, loads or is freed. The engine's
// device lock, if held, is taken before all of these.
//
// # Cost
//
// Acquire and Release take one mutex each, per block and pass. A waiting goroutine is
// woken at each change of the switcher.
package residency
