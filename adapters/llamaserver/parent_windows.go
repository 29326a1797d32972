package llamaserver

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// waitParent reports whether the parent ended before ctx did. A parent that
// cannot be opened has ended, or will never be seen to end: only a number that
// nobody has counts as ended.
func waitParent(ctx context.Context) bool {
	parent, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(os.Getppid()))
	if err != nil {
		if err == windows.ERROR_INVALID_PARAMETER { //nolint:errorlint // a plain Errno
			return true
		}
		<-ctx.Done()
		return false
	}
	defer func() { _ = windows.CloseHandle(parent) }()
	if younger(parent) {
		return true
	}
	for ctx.Err() == nil {
		event, err := windows.WaitForSingleObject(parent, uint32(parentPoll/time.Millisecond))
		if err == nil && event == windows.WAIT_OBJECT_0 {
			return true
		}
		if err != nil {
			<-ctx.Done()
		}
	}
	return false
}

// younger reports whether the process began after this one: Windows gives
// numbers again, and then it is not our parent.
func younger(process windows.Handle) bool {
	var theirs, ours, exit, kernel, user windows.Filetime
	if windows.GetProcessTimes(process, &theirs, &exit, &kernel, &user) != nil ||
		windows.GetProcessTimes(windows.CurrentProcess(), &ours, &exit, &kernel, &user) != nil {
		return false
	}
	return theirs.Nanoseconds() > ours.Nanoseconds()
}
