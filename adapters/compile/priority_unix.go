//go:build unix && !linux

package compile

import "syscall"

// nice is the lowest priority that a process can have, so setting it never raises a
// priority.
const nice = 19

// LowerPriority lets other processes run before this one. If LowerPriority fails, only
// the speed of other programs suffers, so it reports no error.
func LowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice) }
