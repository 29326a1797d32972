package contact

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/lab/battery"
	"github.com/sdnpu/sdnpu/backend/cpu"
)

// TestAStepsEnergyIsItsTimeTimesThePower takes a machine that always draws two watts.
func TestAStepsEnergyIsItsTimeTimesThePower(t *testing.T) {
	for _, discharging := range []bool{true, false} {
		s := setup(t, "f16", &npu{Device: cpu.New(cpu.Options{})})
		s.Tokens, s.Repeats = 2, 1
		s.Battery = func() (battery.Reader, error) {
			return func() (battery.Sample, error) {
				return battery.Sample{Watts: 2, Discharging: discharging}, nil
			}, nil
		}
		r, err := Run(t.Context(), s)
		require.NoError(t, err)
		sum := 0.0
		for _, step := range r.Steps {
			require.NotNil(t, step.Joules, step.Name)
			require.GreaterOrEqual(t, *step.Joules, 2*step.TookMs/1000-0.01, step.Name)
			sum += *step.Joules
		}
		require.InDelta(t, 2*r.Battery.Seconds, r.Battery.Joules, 1e-9)
		require.LessOrEqual(t, sum, r.Battery.Joules+1e-9)
		require.Zero(t, r.Battery.Failed)
		require.InDelta(t, 100, r.Battery.IntervalMs, 0)
		var table bytes.Buffer
		require.NoError(t, r.Print(&table))
		require.Contains(t, table.String(), "2.00 W on average")
		if discharging {
			require.NotContains(t, table.String(), "charger")
		} else {
			require.Contains(t, table.String(), "a charger was connected during")
		}
	}
}

func TestAMachineWithoutPowerIsNoFailure(t *testing.T) {
	s := setup(t, "f16", &npu{Device: cpu.New(cpu.Options{})})
	s.Tokens, s.Repeats = 2, 1
	s.Battery = func() (battery.Reader, error) { return nil, battery.ErrNone }
	r, err := Run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, battery.ErrNone.Error(), r.Battery.Error)
	require.Nil(t, r.Steps[0].Joules)
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Contains(t, table.String(), "no energy was measured")
}
