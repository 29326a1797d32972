package hexagon

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// linear is one layer of many outputs over weights of float16: random ones, as
// the compiler keeps equal parts once.
func linear(t *testing.T, rows, in, out int) *backend.Graph {
	b := backend.NewBuilder("linear")
	weights := make([]byte, 2*in*out)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range weights {
		weights[i] = byte(rng.Uint32()) & 0x3b
	}
	x := b.Input("x", backend.Float16, rows, in)
	w := b.Constant("w", backend.Float16, backend.Literal(weights), out, in)
	b.Output(b.FullyConnected("y", x, w, -1))
	g, err := b.Graph()
	require.NoError(t, err)
	return g
}

// TestEstimatesAreBoundByTheMemory: a layer of one row reads its weights once,
// at what the memory gives; the time is known for this shape and chip.
func TestEstimatesAreBoundByTheMemory(t *testing.T) {
	d := openDevice(t, librarytest.Vendor(t))
	e, err := d.Estimate(t.Context(), linear(t, 1, 896, 4864), EstimateOptions{})
	require.NoError(t, err)
	weights := uint64(2 * 896 * 4864)
	require.InEpsilon(t, weights, e.ReadBytes, 0.02)
	require.Zero(t, e.SpillBytes)
	require.InDelta(t, 60.8, e.MemoryGBps, 0.1) // 67.6 GB/s × 0.9
	require.Greater(t, e.Time, time.Duration(float64(weights)/e.MemoryGBps))
	require.InEpsilon(t, 184*time.Microsecond, e.Time, 0.05, "as it was measured once, by other code")
}

func TestALibraryThatDoesNotSimulateSaysSo(t *testing.T) {
	d := openDevice(t, librarytest.Emulator(t))
	_, err := d.Estimate(t.Context(), double(t), EstimateOptions{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestTracesAreSummedUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(`{"traceEvents":[{"ph":"X","ts":10,"dur":90},{"ph":"X","ts":40,"dur":160},{"ph":"M","ts":9999,"dur":1}],
 "DMA/L2 Access Statistics":{"total_num_dma_read_bytes":5,"total_num_dma_write_bytes":7},
 "Hextimate Configuration":{"sim_core_freq":2000,"sim_ddr_freq":4000,"sim_ddr_width":2,"sim_ddr_channels":4,"sim_ddr_efficiency":0.5}}`)
	e, err := readTrace(path)
	require.NoError(t, err)
	require.Equal(t, Estimate{Cycles: 200, MHz: 2000, Time: 100 * time.Nanosecond, ReadBytes: 5, WriteBytes: 7, MemoryGBps: 32}, e)
	for _, text := range []string{"", "{", "{}", `{"traceEvents":[{"ph":"X","ts":1,"dur":1}]}`} {
		write(text)
		_, err := readTrace(path)
		require.Error(t, err, text)
	}
}
