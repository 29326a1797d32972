package compile

import "golang.org/x/sys/windows"

// lowerPriority makes this process yield to others. A failure changes nothing but speed,
// so it is not reported.
func lowerPriority() {
	_ = windows.SetPriorityClass(windows.CurrentProcess(), windows.BELOW_NORMAL_PRIORITY_CLASS)
}
