package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// ownMemory is this process's resident memory without pages of mapped files, 0
// where that cannot be read.
func ownMemory() int64 { return kilobytes("/proc/self/status", "RssAnon:") }

// freeMemory is what programs can still take without swapping.
func freeMemory() (size int64, known bool) {
	size = kilobytes("/proc/meminfo", "MemAvailable:")
	return size, size > 0
}

// kilobytes reads a line "name 123 kB" of a file, in bytes.
func kilobytes(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // 0 says that it is not known
			return n << 10
		}
	}
	return 0
}
