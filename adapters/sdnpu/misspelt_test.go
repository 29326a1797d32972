package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/config"
)

func TestMisspeltVariablesAreFoundWithWhatWasMeant(t *testing.T) {
	for name, meant := range map[string]string{
		"SDNPU_RECPIE": "SDNPU_RECIPE", "SDNPU_LIBARY": "SDNPU_LIBRARY", "SDNPU_CACHESIZE": "SDNPU_CACHE_SIZE",
		"sdnpu_rows": "SDNPU_ROWS", "SDNPU_BLOCK": "SDNPU_BLOCKS", "SDNPU_SOCS": "SDNPU_SOC",
	} {
		found := lookAtVariables([]string{"PATH", "SDNPU_ROWS", name, "SDNPU_VENDOR", "XSDNPU_ROWS"})
		require.Len(t, found, 1, name)
		require.Empty(t, found[0].found)
		require.Contains(t, found[0].remedy, name+" is not a setting and is ignored: "+meant+" is meant?")
	}
	found := lookAtVariables([]string{"SDNPU_COFFEE_WITH_MILK"})
	require.Len(t, found, 1)
	require.NotContains(t, found[0].remedy, "is meant?")
	require.Contains(t, found[0].remedy, "known are SDNPU_LIBRARY")
}

// Programs under test inherit what make and CI export: doctor must not call it
// a slip of the user's.
func TestNoVariableOfOurOwnBuildIsCalledMisspelt(t *testing.T) {
	files, err := filepath.Glob("../../.ci/*")
	require.NoError(t, err)
	var ours []string
	for _, path := range append(files, "../../Makefile") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		ours = append(ours, regexp.MustCompile(`SDNPU_[A-Z_]+`).FindAllString(string(text), -1)...)
	}
	require.Contains(t, ours, "SDNPU_MODELS")
	require.Empty(t, lookAtVariables(ours))
}

// slowDistance is the definition.
func slowDistance(a, b string) int {
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case a[0] == b[0]:
		return slowDistance(a[1:], b[1:])
	}
	d := 1 + min(slowDistance(a[1:], b), slowDistance(a, b[1:]), slowDistance(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, 1+slowDistance(a[2:], b[2:]))
	}
	return d
}

func TestDistanceAgreesWithItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, rng.IntN(7))
		for i := range b {
			b[i] = byte('a' + rng.IntN(3))
		}
		return string(b)
	}
	for range 2000 {
		a, b := word(), word()
		require.Equal(t, slowDistance(a, b), distance(a, b), "%q %q", a, b)
	}
}

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"8GiB": 8 << 30, "8g": 8 << 30, "500 MB": 500e6, "1.5K": 1536, "100": 100, "12B": 12,
		"20%": 200, "100 %": 1000, "unlimited": 0, "0.0001%": 1,
	} {
		got, err := config.ParseSize(text, 1000)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "0", "GiB", "101%", "8 apples", "NaN", "inf", "1e300"} {
		_, err := config.ParseSize(text, 1000)
		require.ErrorContains(t, err, "no size such as 8GiB", text)
	}
	for n, want := range map[int64]string{5: "1 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 20 << 30: "20 GiB", 25 << 20: "25 MiB"} {
		require.Equal(t, want, bytesText(n))
	}
}

func TestTheCacheKeepsAShareOfItsDiskUnlessToldOtherwise(t *testing.T) {
	s := settings{cache: t.TempDir()}
	limit, err := s.cacheLimit()
	require.NoError(t, err)
	require.Positive(t, limit)
	require.LessOrEqual(t, limit, int64(defaultCacheSize))
	s.cacheSize = "3MiB"
	limit, err = s.cacheLimit()
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, limit)
	s.cacheSize = "much"
	_, err = s.cacheLimit()
	require.ErrorContains(t, err, `SDNPU_CACHE_SIZE: "much" is no size`)
}
