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
}

func (a *account) read() backend.HostWork {
	return backend.HostWork{
		Steps: a.steps.Load(), Products: a.products.Load(), Outliers: a.outliers.Load(), Channels: a.channels.Load(), Reads: a.reads.Load(),
		Multiplications: a.multiplications.Load(), DeviceMultiplications: a.device.Load(),
		CPU: time.Duration(a.cpu.Load()), IO: time.Duration(a.io.Load()),
	}
}
