package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrustFollowsWhatWasAccepted(t *testing.T) {
	var tr Trust
	require.InDelta(t, 1, tr.Factor(), 0)
	scores := []float32{0.9, 0.8, 0.7}
	for range 200 {
		tr.Observe(scores, 1)
	}
	require.InDelta(t, 1/2.4, tr.Factor(), 0.05)
	for range 200 {
		tr.Observe(scores, 3)
	}
	require.InDelta(t, 3/2.4, tr.Factor(), 0.05)
}
