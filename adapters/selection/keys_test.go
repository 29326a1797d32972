package selection

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysReplaceAValueOfAnEarlierVersionWithANote(t *testing.T) {
	keys, notes, err := Keys([]string{"plan=greedy"})
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "sdnpu.plan = greedy is a value of an earlier version")
	require.NotEqual(t, "greedy", keys[1].Value)
	_, notes, err = Keys([]string{"plan=switch"})
	require.NoError(t, err)
	require.Empty(t, notes)
}
