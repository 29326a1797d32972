package shadow

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/estimator"
)

// refusing is a simulator that does not compile MatMul.
type refusing struct{ err error }

func (r refusing) EstimateLinear(_ context.Context, l estimator.Linear) (estimator.Estimate, error) {
	if l.Operator == "MatMul" {
		return estimator.Estimate{}, r.err
	}
	return estimator.Estimate{Cycles: float64(l.In), MHz: 2, Shares: []estimator.Share{
		{Unit: estimator.Matrix, Busy: 8}, {Unit: estimator.Vector, Busy: 4}, {Unit: estimator.Matrix, Busy: 2},
	}}, nil
}

func TestEstimateKeepsFormsThatDoNotCompile(t *testing.T) {
	times, err := Estimate(t.Context(), refusing{errors.New("code 1002")}, Shapes[0], 128, backend.Float16)
	require.NoError(t, err)
	require.Len(t, times, len(Forms))
	for i, x := range times {
		require.Equal(t, Forms[i].Name, x.Form)
		if Forms[i].Validated {
			require.Equal(t, 288.0, x.Us)
			require.Equal(t, 5.0, x.MatrixUs)
		} else {
			require.Equal(t, "code 1002", x.Refused)
		}
	}
}

func TestEstimateNeedsASimulator(t *testing.T) {
	_, err := Estimate(t.Context(), refusing{fmt.Errorf("no trace: %w", estimator.ErrNotSimulated)}, Shapes[0], 128, backend.Float16)
	require.ErrorIs(t, err, estimator.ErrNotSimulated)
}
