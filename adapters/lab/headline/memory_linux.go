package headline

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// peakMemory returns the largest memory in bytes of a child process of the given parent. An
// argument of the child process must contain the given text. If the parent has no child
// process with the text in an argument, peakMemory returns 0.
func peakMemory(parent int, text string) int64 {
	status, _ := filepath.Glob("/proc/[0-9]*/status") // Glob cannot fail, because the pattern is valid
	for _, path := range status {
		content, err := os.ReadFile(path)
		if err != nil || field(string(content), "PPid:") != int64(parent) {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")); err == nil && strings.Contains(string(line), text) {
			return field(string(content), "VmHWM:") << 10
		}
	}
	return 0
}

// field returns the number that follows a name in a file of /proc, or 0.
func field(text, name string) int64 {
	_, rest, _ := strings.Cut(text, name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[0], 10, 64) // ParseInt returns 0 for a field that is not a number
	return n
}
