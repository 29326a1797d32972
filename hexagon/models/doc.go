// Package models runs complete models through the engine on each available QNN library:
// our emulator, the vendor's x86-64 library for several chips, and the vendor's float
// library for the CPU. Package models contains only tests.
//
// The tests of package models run each model in each recipe. The float device computes
// the same recipe with exact arithmetic, so the error of the recipe and the additional
// error of a library are reported separately.
//
// A model runs with one block per layer, or with fewer blocks. The tests of package models
// record the output of each block and compare it with the output of the same block on the
// float device. The tests compare tokens with teacher forcing: at each position, each
// library gets the float device's tokens up to this position and predicts the next token.
// With teacher forcing, the first different token does not hide later differences.
//
// testdata/models.md is the table of results, and models.json holds its rows. A test run
// writes each row as soon as it is measured, so a later run can measure a part of the table
// again, or measure only the missing rows (-missing). The command make test-vendor-full
// writes models.md and models.json. The times in testdata/models.md are measured on the
// host and say nothing about a phone.
//
// testdata/emitted.md is a table of all distinct nodes in the graphs of all model families
// and recipes, each run as a graph of its own on each library.
package models
