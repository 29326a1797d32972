//go:build unix && !linux

package compile

import "syscall"

// nice is the lowest priority. No process can have a lower one already, so that setting
// it never raises a priority.
const nice = 19

// lowerPriority makes this process yield to others. A failure changes nothing but speed,
// so it is not reported.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice) }
