// Package execute runs switch plans with the engine on an emulator that keeps a
// phone's time, and compares the times with the forecast.
//
// A model of a few kilobytes with the same number of layers replaces the real
// model; the emulator charges the real model's times. A difference between forecast
// and execution is therefore a cost or an error of the engine. Agreement shows that
// the engine follows the plan. It does not show that a phone follows the profile.
//
// The emulator reads its pace once per process, so [Processes] starts a process for
// each plan. On this machine's clock, a run whose calls were late is repeated with
// a slower emulator.
package execute
