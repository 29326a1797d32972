package grammar

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomDecimal returns a number with few digits, so that equal numbers are likely.
func randomDecimal(rng *rand.Rand) string {
	text := fmt.Sprint(rng.IntN([]int{2, 12, 130}[rng.IntN(3)]))
	if n := rng.IntN(4); n > 0 {
		text += "."
		for range n {
			text += fmt.Sprint(rng.IntN([]int{2, 10}[rng.IntN(2)]))
		}
	}
	if rng.IntN(2) == 0 {
		text = "-" + text
	}
	return text
}

func TestBoundsOfNumbersAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	inside, outside := 0, 0
	for range 600 {
		low, high := randomDecimal(rng), randomDecimal(rng)
		lowKey, highKey := []string{"minimum", "exclusiveMinimum"}[rng.IntN(2)], []string{"maximum", "exclusiveMaximum"}[rng.IntN(2)]
		var parts []string
		hasLow, hasHigh := rng.IntN(4) > 0, rng.IntN(4) > 0
		if hasLow {
			parts = append(parts, fmt.Sprintf("%q:%s", lowKey, low))
		}
		if hasHigh {
			parts = append(parts, fmt.Sprintf("%q:%s", highKey, high))
		}
		schema := `{"type":"number"` + strings.Join(append([]string{""}, parts...), ",") + "}"
		g, err := ParseSchema([]byte(schema))
		allowed := func(text string) bool {
			x, _ := new(big.Rat).SetString(text)
			a, _ := new(big.Rat).SetString(low)
			b, _ := new(big.Rat).SetString(high)
			return (!hasLow || x.Cmp(a) > 0 || x.Cmp(a) == 0 && lowKey == "minimum") &&
				(!hasHigh || x.Cmp(b) < 0 || x.Cmp(b) == 0 && highKey == "maximum")
		}
		for range 80 {
			text := randomDecimal(rng)
			switch rng.IntN(4) {
			case 0:
				text = low
			case 1:
				text = high
			case 2:
				text = []string{low, high}[rng.IntN(2)]
				if !strings.Contains(text, ".") {
					text += "."
				}
				text += fmt.Sprint(rng.IntN(10))
			}
			if strings.HasPrefix(text, "-0") && strings.Trim(text, "-0.") == "" {
				continue // a number with bounds may not be -0
			}
			want := allowed(text)
			if want {
				require.NoError(t, err, schema)
				inside++
			} else {
				outside++
			}
			require.Equal(t, want, err == nil && readsAll(g, text), "%s in %s", text, schema)
		}
	}
	require.Greater(t, inside, 5000)
	require.Greater(t, outside, 5000)
	for _, schema := range []string{`{"type":"number","minimum":1e400}`, `{"type":"number","minimum":1e-99999999}`, `{"type":"number","maximum":0.1234567890123456789012345678901}`, `{"type":"number","maximum":true}`} {
		_, err := ParseSchema([]byte(schema))
		require.ErrorContains(t, err, "must be a number below 2^64")
	}
}
