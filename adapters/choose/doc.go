// Package choose finds the fastest recipe of a model that keeps the model's quality on
// a device, and stores the choice.
//
// The package measures the time of each recipe on the device, and then checks recipes against their
// gates, the fastest first, until a recipe passes. A recipe is preferred to a recipe of better
// quality only if the first is at least 5 % faster. The comparison leaves out f32 and recipes with
// a KV cache of 8 bits. Package launch uses the stored choice.
//
// # Invariants
//
//   - The chosen recipe was timed, has passed its gate and was opened with the settings
//     of the caller, all on this device.
//   - An interrupted comparison stores no choice. The calibrations and checks that it
//     completed stay in the cache, and the next comparison uses them.
//
// # Cost
//
// The model is calibrated once or twice, and each recipe is compiled for one row. For
// SmolLM2-135M that takes a few minutes on two cores, for stories260K seconds.
package choose
