package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorsSuggestTheNearestKeyAndValue(t *testing.T) {
	for _, tt := range []struct{ key, value, want string }{
		{"plan", "swich", "(did you mean switch?)"},
		{"recipe", "w8a61", "(did you mean w8a16?)"},
	} {
		k, err := Find(tt.key)
		require.NoError(t, err)
		require.ErrorContains(t, k.Check(tt.value), tt.want)
	}
	_, err := Find("recpie")
	require.ErrorContains(t, err, "(did you mean sdnpu.recipe?)")
	k, err := Find("recipe")
	require.NoError(t, err)
	require.NotContains(t, k.Check("something else").Error(), "did you mean")
}

func TestCurrentReplacesValuesOfEarlierVersions(t *testing.T) {
	k, err := Find("plan")
	require.NoError(t, err)
	require.NotEqual(t, "greedy", k.Current("greedy"))
	require.Equal(t, "switch", k.Current("switch"))
}
