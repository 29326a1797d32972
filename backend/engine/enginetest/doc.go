// Package enginetest is what an engine must do on every device: [Run] holds
// package engine, on a device that it is given, against recorded texts of an
// independent implementation and against itself: a text must not depend on how
// it was cut into passes, which graphs ran it, or what else ran beside it.
//
// The models are those of integration_test/models; they are small enough that
// all of it takes seconds on a device that is not an emulation of hardware.
package enginetest
