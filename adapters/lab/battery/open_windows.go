package battery

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemBatteryState is the number by which CallNtPowerInformation knows the state of all
// batteries together.
const systemBatteryState = 5

// state has the layout of SYSTEM_BATTERY_STATE. Rate is the power in milliwatts, negative
// while the batteries discharge.
type state struct {
	acOnLine, present, charging, discharging byte
	spare                                    [3]byte
	tag                                      byte
	maxCapacity, remaining                   uint32
	rate                                     int32
	estimatedSeconds, alert1, alert2         uint32
}

// unknownRate is the rate of a battery that does not report its power.
const unknownRate = -1 << 31

// Open returns a reader of this machine's batteries, or [ErrNone].
func Open() (Reader, error) {
	call := windows.NewLazySystemDLL("powrprof.dll").NewProc("CallNtPowerInformation")
	if err := call.Find(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	read := func() (Sample, error) {
		var s state
		status, _, _ := call.Call(systemBatteryState, 0, 0, uintptr(unsafe.Pointer(&s)), unsafe.Sizeof(s))
		if status != 0 {
			return Sample{}, fmt.Errorf("battery: CallNtPowerInformation: status %#x", status)
		}
		if s.present == 0 || s.rate == unknownRate {
			return Sample{}, ErrNone
		}
		return Sample{Watts: max(float64(s.rate), -float64(s.rate)) / 1000, Discharging: s.discharging != 0 && s.acOnLine == 0}, nil
	}
	_, err := read()
	if err != nil {
		return nil, err
	}
	return read, nil
}
