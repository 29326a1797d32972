package graphswap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnergyIsPowerTimesTime charges first each lane alone with a power of one watt, and
// then all lanes.
func TestEnergyIsPowerTimesTime(t *testing.T) {
	times := LaneTimes{NPU: 2000, Loading: 300, CPU: 40, Whole: 5000}
	for _, test := range []struct {
		power Power
		want  float64
	}{
		{Power{NPU: 1}, 2000},
		{Power{Loading: 1}, 300},
		{Power{CPU: 1}, 40},
		{Power{Idle: 1}, 5000},
		{Power{NPU: 5, CPU: 6.5, Loading: 3, Idle: 1}, 10000 + 900 + 260 + 5000},
	} {
		require.InDelta(t, test.want, test.power.EnergyMJ(times), 1e-9)
	}
}

// TestEveryProfileHasPowers fails if a report on a device profile would have no energy.
func TestEveryProfileHasPowers(t *testing.T) {
	for _, name := range DeviceNames() {
		p, err := Device(name)
		require.NoError(t, err)
		for lane, watts := range map[string]float64{"NPU": p.Power.NPU, "CPU": p.Power.CPU, "loading": p.Power.Loading, "idle": p.Power.Idle} {
			require.Positive(t, watts, "%s: %s", name, lane)
		}
	}
}
