// Package baseline makes the plans that the planner is compared with: the rules of
// the papers, plans without a planner, and the exact reference.
//
// Only the laboratory imports it. The product's plans are in package graphswap;
// under their earlier names (descent, g1_only, both_resident ...) this package
// makes them too, so that comparisons keep their row names.
//
// # Invariants
//
//   - equal problems give equal plans;
//   - every plan passes [graphswap.Plan.Validate].
//
// The exact plans take up to seconds; all others take less than a millisecond.
package baseline
