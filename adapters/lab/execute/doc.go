// Package execute executes switch plans with the engine on an emulator that simulates
// the times of a phone. Package execute compares the times of an executed plan with
// the plan's forecast.
//
// A model of a few kilobytes with the same number of layers takes the place of the real
// model, and the emulator simulates the times of the real model. A difference between the
// forecast and the execution of a plan is a cost or an error of the engine. If forecast and
// execution agree, the engine follows the plan. The comparison of forecast and execution
// does not show that a phone behaves like the profile.
//
// [Processes] starts a process for each switch plan, because the emulator reads its
// settings only once per process. If calls of a plan were late on this machine's
// clock, [Processes] executes the plan again with a slower emulator.
package execute
