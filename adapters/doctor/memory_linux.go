package doctor

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// ownMemory returns the resident memory of this process without pages of mapped
// files, or 0 if it cannot be read.
func ownMemory() int64 { return kilobytes("/proc/self/status", "RssAnon:") }

// freeMemory returns the memory that programs can take without swapping.
func freeMemory() (size int64, known bool) {
	size = kilobytes("/proc/meminfo", "MemAvailable:")
	return size, size > 0
}

// kilobytes returns the bytes of a line "name 123 kB" in a file, or 0.
func kilobytes(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // 0 means unknown
			return n << 10
		}
	}
	return 0
}
