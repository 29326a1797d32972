// Package findings measures models and keeps the results in the image cache.
//
// There are five kinds of results, each with a folder of its own:
//
//	ranges/    activation ranges from calibration, and weights that it rounded
//	checks/    quality of a recipe compared with float32
//	flips/     how often the graph width changes the top token
//	profiles/  load and execute times (package profile writes them)
//	manifest.json, in a folder of prepared images: what the images are for
//
// The package opens no device and reads no environment: callers pass both.
// It prints nothing.
//
// # Invariants
//
//   - Files are written completely or not at all.
//   - A result that was measured with other ranges, another model file or
//     another device is never returned for the current ones.
//   - Files may be damaged or edited. The package never trusts a length that it
//     reads, and damaged results count as missing.
//
// # Cost
//
// Reading a result costs one small file. Calibration and checks run the model on
// the float device and take seconds to minutes. Rounded weights are mapped, not
// read.
package findings
