package cpu_test

import (
	"testing"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
	"github.com/sdnpu/sdnpu/backend/cpu"
)

func TestFloatDevicePassesTheSuite(t *testing.T) {
	for name, workers := range map[string]int{"one worker": 1, "three workers": 3} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(*testing.T) backend.Device {
				return cpu.New(cpu.Options{Workers: workers})
			}, backendtest.Options{Tolerance: backendtest.Single, RowExact: true})
		})
	}
}
