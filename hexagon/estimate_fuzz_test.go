package hexagon

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzTrace reads anything as the trace of the vendor's compiler: an estimate has
// a time, or there is an error.
func FuzzTrace(f *testing.F) {
	f.Add(`{"traceEvents":[{"ph":"X","ts":10,"dur":5}],"DMA/L2 Access Statistics":{"total_num_dma_read_bytes":7},"Hextimate Configuration":{"sim_core_freq":1000,"sim_ddr_freq":4200,"sim_ddr_width":2,"sim_ddr_channels":4}}`)
	f.Add(`{"traceEvents":[{"ph":"X","ts":-1,"dur":1e308},{"ph":"X","ts":1e308,"dur":1e308}],"Hextimate Configuration":{"sim_core_freq":1e-300}}`)
	f.Add(`{"traceEvents":null}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := sumTrace(strings.NewReader(text))
		if err == nil {
			require.Positive(t, e.Cycles)
			require.Positive(t, e.MHz)
			require.GreaterOrEqual(t, e.Time, time.Duration(0))
		}
	})
}

// FuzzLoggedLine reads anything as a line of the vendor's log.
func FuzzLoggedLine(f *testing.F) {
	f.Add("spill_bytes=12 fill_bytes = 34")
	f.Add("spill_bytes=99999999999999999999999")
	f.Add("unspill_bytes=1")
	f.Fuzz(func(t *testing.T, line string) {
		said := map[string]uint64{}
		hear(said, line)
		for name := range said {
			require.Contains(t, line, name)
		}
	})
}
