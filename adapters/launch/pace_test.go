package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

func TestPaceNamesTheProfileAndItsKind(t *testing.T) {
	emulated := backend.Capabilities{Name: "emulator", Provider: "HTP_EMULATOR_SDNPU"}
	for _, name := range graphswap.DeviceNames() {
		want, err := graphswap.Device(name)
		require.NoError(t, err)
		t.Setenv("SDNPU_EMULATOR", "threads=1,profile="+name+",as=qwen2.5-0.5b,scale=2")
		p := PaceOf(emulated)
		require.Equal(t, &Pace{Profile: name, Kind: want.Kind, StandIn: "qwen2.5-0.5b", Pace: "wall", Scale: "2"}, p)
		require.Contains(t, Describe(emulated), "at the pace of "+name+" ("+want.Kind+"), charged as qwen2.5-0.5b, wall time times 2")
		require.Equal(t, want.Power, p.Power())
		require.Nil(t, PaceOf(backend.Capabilities{Provider: "HTP_QTI_AISW"}), "a phone's library takes its own time")
	}
	t.Setenv("SDNPU_EMULATOR", "profile=sd8gen2/fast-load,pace=virtual")
	fast, err := graphswap.Device("sd8gen2+fast-load")
	require.NoError(t, err)
	require.Equal(t, fast.Kind, PaceOf(emulated).Kind)
	require.Contains(t, Describe(emulated), "virtual time: durations by this machine's clock are not the phone's")
	for _, setting := range []string{"", "threads=2", "profile="} {
		t.Setenv("SDNPU_EMULATOR", setting)
		require.Nil(t, PaceOf(emulated), setting)
		require.Zero(t, PaceOf(emulated).Power(), "a device without a profile has no powers")
	}
}
