// Package cmdline holds what the command lines of sdnpu and sdnpu-lab share:
// argument checks, the version, error messages that name the help, log lines for
// people, progress on a terminal, and a standard output into which libraries cannot
// print.
//
// The package knows neither commands nor models. [Main] is the only function that
// ends the process.
package cmdline
