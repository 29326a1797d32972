package lanes

import (
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// account counts the host's work. An account is safe for concurrent use.
type account struct {
	steps, outliers, channels, products, reads, multiplications, device atomic.Int64
	cpu, io                                                             atomic.Int64 // cpu and io are times in nanoseconds
	// The fields below count attention on the host; attention is a time in nanoseconds.
	launches, ownLaunches, keys, kept, sampled, found, denseRuns, sparseRuns, attention atomic.Int64
}

func (a *account) read() backend.HostWork {
	return backend.HostWork{
		Steps: a.steps.Load(), Products: a.products.Load(), Outliers: a.outliers.Load(), Channels: a.channels.Load(), Reads: a.reads.Load(),
		Multiplications: a.multiplications.Load(), DeviceMultiplications: a.device.Load(),
		CPU: time.Duration(a.cpu.Load()), IO: time.Duration(a.io.Load()),
		Launches: a.launches.Load(), ProcessorLaunches: a.ownLaunches.Load(), Keys: a.keys.Load(), KeptKeys: a.kept.Load(), SampledKeys: a.sampled.Load(), FoundKeys: a.found.Load(),
		DensePasses: a.denseRuns.Load(), SparsePasses: a.sparseRuns.Load(), Attention: time.Duration(a.attention.Load()),
	}
}
