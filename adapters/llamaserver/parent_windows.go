package llamaserver

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// rememberParent returns what waits for the parent and reports whether it
// ended before ctx did. A parent that may not be opened is never seen to end;
// a number that no process has is one that ended.
func rememberParent() func(context.Context) bool {
	parent, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(os.Getppid()))
	return func(ctx context.Context) bool {
		if err != nil {
			if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
				return true
			}
			<-ctx.Done()
			return false
		}
		defer func() { _ = windows.CloseHandle(parent) }()
		return younger(parent) || ended(ctx, parent)
	}
}

// ended waits in turns, for a wait for a process knows no context.
func ended(ctx context.Context, process windows.Handle) bool {
	for ctx.Err() == nil {
		event, err := windows.WaitForSingleObject(process, uint32(parentPoll/time.Millisecond))
		switch {
		case err != nil:
			<-ctx.Done()
		case event == windows.WAIT_OBJECT_0:
			return true
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
