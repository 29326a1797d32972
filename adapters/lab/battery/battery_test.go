package battery

import (
	"errors"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// files returns a folder with the given files in the form of the kernel, with a line feed
// at the end.
func files(list map[string]string) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, text := range list {
		folder[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return folder
}

func TestPowersOfTheKernelAreRead(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  Sample
	}{
		{"power", map[string]string{"BAT0/type": "Battery", "BAT0/status": "Discharging", "BAT0/power_now": "6500000"}, Sample{6.5, true}},
		{"current and voltage", map[string]string{"b/type": "Battery", "b/status": "Discharging", "b/current_now": "1500000", "b/voltage_now": "4000000"}, Sample{6, true}},
		{"negative current", map[string]string{"b/type": "Battery", "b/status": "Discharging", "b/current_now": "-1500000", "b/voltage_now": "4000000"}, Sample{6, true}},
		{"charger", map[string]string{"b/type": "Battery", "b/status": "Charging", "b/power_now": "2000000", "usb/type": "USB", "usb/power_now": "9"}, Sample{2, false}},
		{"two batteries", map[string]string{
			"a/type": "Battery", "a/status": "Discharging", "a/power_now": "2000000", "b/type": "Battery", "b/status": "Full", "b/power_now": "500000",
		}, Sample{2.5, false}},
		{"battery of a mouse", map[string]string{
			"a/type": "Battery", "a/status": "Discharging", "a/power_now": "2000000", "b/type": "Battery", "b/scope": "Device", "b/power_now": "500000",
		}, Sample{2, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			read, err := fromFolder(files(test.files))
			require.NoError(t, err)
			got, err := read()
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestAMachineWithoutABatterySaysSo(t *testing.T) {
	for _, list := range []map[string]string{
		{}, {"AC/type": "Mains", "AC/online": "1"}, {"b/type": "Battery"}, {"b/type": "Battery", "b/power_now": "much"}, {"b/type": "Battery", "b/current_now": "1"},
	} {
		_, err := fromFolder(files(list))
		require.ErrorIs(t, err, ErrNone, "%v", list)
	}
}

// TestEnergyIsTheIntegralOfThePower samples a power that grows by one watt per second.
func TestEnergyIsTheIntegralOfThePower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, reads := time.Now(), 0
		m := Start(func() (Sample, error) {
			if reads++; reads == 4 {
				return Sample{}, errors.New("the driver is busy")
			}
			return Sample{Watts: time.Since(began).Seconds(), Discharging: reads > 2}, nil
		}, 100*time.Millisecond)
		time.Sleep(2 * time.Second)
		half := m.Energy()
		require.InDelta(t, 2, half.Joules, 1e-9)
		time.Sleep(2*time.Second + 50*time.Millisecond)
		e := m.Stop()
		require.InDelta(t, 4.05*4.05/2, e.Joules, 1e-9)
		require.InDelta(t, 4.05, e.Seconds, 1e-9)
		require.InDelta(t, 4.05/2, e.Watts(), 1e-9)
		require.Equal(t, 1, e.Failed)
		require.Equal(t, 2, e.NotDischarging)
		require.GreaterOrEqual(t, e.Samples, 41)
	})
	require.Zero(t, Energy{}.Watts())
}
