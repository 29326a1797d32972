package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestRegimesCoverTheProfilesThatHaveTheModel uses a model that some profiles do not
// have.
func TestRegimesCoverTheProfilesThatHaveTheModel(t *testing.T) {
	devices, m, err := devicesWith("qwen2.5-1.5b")
	require.NoError(t, err)
	require.Subset(t, devices, []string{"sd8elite", "sd8gen2", "sd8gen3"})
	require.Positive(t, m.BodyBytes)
	_, _, err = devicesWith("gpt-7")
	require.ErrorIs(t, err, graphswap.ErrModel)
}
