// Package models runs complete models through the engine on each available QNN
// library: our emulator, the vendor's x86-64 library for several chips, and the
// vendor's float library for the CPU. It contains only tests.
//
// Each model runs in each recipe. A float device computes the same recipe with
// exact arithmetic, so the error of the recipe and the error that a library adds are
// reported separately.
//
// A model has as many blocks as layers, or fewer. The output of each block is
// recorded between engine and device, so the error against the float device is known
// for each layer. Tokens are compared with teacher forcing: each library gets the
// float device's tokens and predicts the next, so the first difference does not hide
// later ones.
//
// testdata/models.md is the table of the results. models.json holds its rows. Each row is written
// when it is measured, so a part can be measured again, and an interrupted run can be continued
// (-missing). make test-vendor-full writes both. Their times are measured on the host and say
// nothing about a phone.
//
// testdata/emitted.md is the table of all distinct nodes in the graphs of all model
// families and recipes, each run alone on the same libraries.
package models
