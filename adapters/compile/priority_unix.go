//go:build unix && !linux

package compile

import "syscall"

// nice is the lowest priority that a process can have, so setting it never raises a
// priority.
const nice = 19

// lowerPriority lets other processes run before this one. If lowerPriority fails, only
// the speed of other programs suffers, so it reports no error.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice) }
