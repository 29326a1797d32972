package hexagon

import (
	"testing"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

func TestTheEmulatorPassesTheSuite(t *testing.T) {
	path := librarytest.Emulator(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Single, RowExact: true})
}

func TestTheVendorsLibraryPassesTheSuite(t *testing.T) {
	path := librarytest.Vendor(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Half})
}
