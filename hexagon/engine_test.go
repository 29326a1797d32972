package hexagon

import (
	"testing"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// models is where the repository carries real models.
const models = "../integration_test/models"

func TestTheEngineIsRightOnTheEmulator(t *testing.T) {
	path := librarytest.Emulator(t)
	for _, recipe := range []string{"f16", "f32"} {
		t.Run(recipe, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) }, models,
				enginetest.Options{Recipe: recipe, RowExact: true, Brief: raceDetector})
		})
	}
}

func TestTheEngineIsRightOnTheVendorsLibrary(t *testing.T) {
	path := librarytest.VendorAtLength(t)
	enginetest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) }, models,
		enginetest.Options{Recipe: "f16", Gap: 0.02, Tolerance: 0.5, Brief: true})
}
