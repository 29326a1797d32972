package backendtest_test

import (
	"testing"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
	"github.com/sdnpu/sdnpu/backend/cpu"
)

// The test of a device passes the device's constructor, and options that state what the
// device promises.
func ExampleRun() {
	_ = func(t *testing.T) { // TestDevicePassesTheSuite
		open := func(*testing.T) backend.Device { return cpu.New(cpu.Options{}) }
		backendtest.Run(t, open, backendtest.Options{Tolerance: backendtest.Single, RowExact: true})
	}
}
