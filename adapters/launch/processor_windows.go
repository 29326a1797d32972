package launch

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ProcessorTime returns the processor time of this process, summed over all cores.
func ProcessorTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t windows.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * 100 // Windows counts processor time in ticks of 100 ns
}

var getProcessMemoryInfo = windows.NewLazySystemDLL("psapi.dll").NewProc("GetProcessMemoryInfo")

// memoryCounters is the Windows struct PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	size, pageFaults                       uint32
	peakWorkingSet, workingSet             uintptr
	peakPaged, paged, peakNonPaged, nonPag uintptr
	pagefile, peakPagefile                 uintptr
}

// PeakMemory returns the largest working set that this process has had, in bytes.
func PeakMemory() int64 {
	var c memoryCounters
	c.size = uint32(unsafe.Sizeof(c))
	if ok, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.size)); ok == 0 {
		return 0
	}
	return int64(c.peakWorkingSet)
}
