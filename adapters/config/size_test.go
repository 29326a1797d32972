package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"8GiB": 8 << 30, "8g": 8 << 30, "500 MB": 500e6, "1.5K": 1536, "100": 100, "12B": 12,
		"20%": 200, "100 %": 1000, "unlimited": 0, "0.0001%": 1,
	} {
		got, err := ParseSize(text, 1000)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "0", "GiB", "101%", "8 apples", "NaN", "inf", "1e300"} {
		_, err := ParseSize(text, 1000)
		require.ErrorContains(t, err, "want a size such as 8GiB", text)
	}
}
