//go:build !linux

package launch

import "time"

// ThreadTime is nil here, because only Linux reports the processor time of a thread.
var ThreadTime func() time.Duration
