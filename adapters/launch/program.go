package launch

import (
	"fmt"
	"os"
	"runtime"
)

// runningProgram is the path at which Linux keeps the file of the running program,
// even if that file was removed or replaced.
const runningProgram = "/proc/self/exe"

// OwnProgram returns a path that starts this program again. On Linux it starts the
// running file, also after an update replaced it. On other systems, and where /proc
// is not mounted, it starts the file that is at the program's path now; package
// compile refuses another version.
func OwnProgram() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(runningProgram); err == nil {
			return runningProgram, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("this program's own file: %w", err)
	}
	return path, nil
}
