package hexagon

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
	path := librarytest.VendorAtLength(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Half})
}

// TestTheVendorsFloatLibraryPassesTheSuite in float32: every form in another type
// is refused, by its name.
func TestTheVendorsFloatLibraryPassesTheSuite(t *testing.T) {
	path := librarytest.VendorCPUAtLength(t)
	backendtest.Run(t, func(t *testing.T) backend.Device { return openLibrary(t, path) },
		backendtest.Options{Tolerance: backendtest.Single, Refuses: refusedByPlain, Type: backend.Float32})
}

// refusedByPlain names what libQnnCpu has no kernel for in a graph: nodes on
// other numbers than float32, except Cast between the floats.
func refusedByPlain(g *backend.Graph) string {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, id := range slices.Concat(n.Inputs, n.Outputs) {
			t := &g.Tensors[id]
			if t.Type.Fixed() || t.Type == backend.Float16 && n.Op != backend.Cast {
				return fmt.Sprintf("%s of %v", n.Op, t.Type)
			}
		}
	}
	return ""
}

// TestTheVendorsFloatLibraryIsTheProcessor: nothing runs on it under the NPU's
// name, and a refusal says what it does compute.
func TestTheVendorsFloatLibraryIsTheProcessor(t *testing.T) {
	d := openDevice(t, librarytest.VendorCPU(t))
	c := d.Capabilities()
	require.Equal(t, backend.CPU, c.Lane)
	require.Equal(t, "CPU_QTI_AISW", c.Provider)
	require.False(t, c.SharesConstants)
	err := d.Compile(t.Context(), io.Discard, wide(t, 1, make([]byte, 2*512*256)))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "recipe f32")
}
