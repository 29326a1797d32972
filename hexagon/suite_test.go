package hexagon

import (
	"testing"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
)

func TestTheEmulatorPassesTheSuite(t *testing.T) {
	path := emulatorLibrary(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Single, RowExact: true})
}

func TestTheVendorsLibraryPassesTheSuite(t *testing.T) {
	path := vendorLibrary(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Half})
}
