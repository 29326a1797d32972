package main

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var getProcessMemoryInfo = windows.NewLazySystemDLL("psapi.dll").NewProc("GetProcessMemoryInfo")

// memoryCounters is PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	size, pageFaults                       uint32
	peakWorkingSet, workingSet             uintptr
	peakPaged, paged, peakNonPaged, nonPag uintptr
	pagefile, peakPagefile                 uintptr
}

// peakMemory is the largest working set of this process so far, in bytes.
func peakMemory() int64 {
	var c memoryCounters
	c.size = uint32(unsafe.Sizeof(c))
	if ok, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.size)); ok == 0 {
		return 0
	}
	return int64(c.peakWorkingSet)
}
