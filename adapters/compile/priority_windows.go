package compile

import "syscall"

// belowNormal is Windows' BELOW_NORMAL_PRIORITY_CLASS.
const belowNormal = 0x4000

// lowerPriority makes this process yield to others. A failure changes nothing but speed,
// so it is not reported.
func lowerPriority() {
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		_, _, _ = syscall.NewLazyDLL("kernel32.dll").NewProc("SetPriorityClass").Call(uintptr(self), belowNormal)
	}
}
