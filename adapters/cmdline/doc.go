// Package cmdline holds what the command lines of sdnpu and sdnpu-lab share:
// argument checks, the version, error endings that name the help, log lines for people,
// progress on a terminal, and a standard output that libraries cannot write to.
//
// It knows no command and no model. [Main] is the only function that ends the
// process.
package cmdline
