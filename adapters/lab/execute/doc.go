// Package execute executes switch plans with the engine, on an emulator that
// simulates the times of a phone, and compares the times with the forecast.
//
// A model of a few kilobytes with the same number of layers stands in for the real
// model; the emulator takes the real model's times. In this setup, a difference between
// forecast and execution is a cost or an error of the engine. If forecast and execution
// agree, the engine follows the plan. The comparison does not show that a phone behaves
// like the profile.
//
// The emulator reads its settings once per process, so [Processes] starts a process for
// each plan. If calls were late on this machine's clock, the plan is executed again
// with a slower emulator.
package execute
