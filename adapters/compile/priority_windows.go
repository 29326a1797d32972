package compile

import "syscall"

// belowNormal is Windows' BELOW_NORMAL_PRIORITY_CLASS.
const belowNormal = 0x4000

// LowerPriority lets other processes run before this one. If LowerPriority fails, only
// the speed of other programs suffers, so it reports no error.
func LowerPriority() {
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		_, _, _ = syscall.NewLazyDLL("kernel32.dll").NewProc("SetPriorityClass").Call(uintptr(self), belowNormal)
	}
}
