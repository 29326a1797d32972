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
	for _, schema := range []string{`{"type":"number","minimum":1e400}`, `{"type":"number","maximum":-1e30}`, `{"type":"number","maximum":true}`} {
		_, err := ParseSchema([]byte(schema))
		require.ErrorContains(t, err, "must be a number between -2^64 and 2^64")
	}
}

func TestBoundsThatGrammarsCannotHaveAreRoundedInward(t *testing.T) {
	for _, tt := range []struct {
		schema          string
		inside, outside []string
	}{
		{
			`{"type":"number","minimum":-3.4028234663852886e38,"exclusiveMaximum":3.4028234663852886e38}`,
			[]string{"0", "-1.5", "18446744073709551615", "-18446744073709551615"},
			[]string{"18446744073709551616", "1e5", "-18446744073709551616"},
		},
		{`{"type":"integer","exclusiveMinimum":-1e400,"maximum":1.7976931348623157e308}`, []string{"0", "-18446744073709551615"}, []string{"18446744073709551616", "0.5"}},
		{`{"type":"integer","minimum":0,"maximum":1e30}`, []string{"0", "12345678901234567890"}, []string{"-1"}},
		{`{"type":"number","minimum":5e-324,"maximum":1}`, []string{"0.000000000000000000000000000001", "1"}, []string{"0", "0.0"}},
		{`{"type":"number","minimum":-1e-99999999}`, []string{"0", "1"}, []string{"-0.000000000000000000000000000001"}},
		{`{"type":"number","exclusiveMaximum":1e-40}`, []string{"0", "-1"}, []string{"0.000000000000000000000000000001"}},
		{
			`{"type":"number","minimum":0.1,"maximum":0.1234567890123456789012345678901}`,
			[]string{"0.123456789012345678901234567890"},
			[]string{"0.123456789012345678901234567891", "0.1234567890123456789012345678902"},
		},
		{
			`{"type":"number","exclusiveMinimum":-0.1234567890123456789012345678901}`,
			[]string{"-0.123456789012345678901234567890"},
			[]string{"-0.123456789012345678901234567891"},
		},
	} {
		g := parseSchema(t, tt.schema)
		for _, text := range tt.inside {
			require.True(t, readsAll(g, text), "%s in %s", text, tt.schema)
		}
		for _, text := range tt.outside {
			require.False(t, readsAll(g, text), "%s in %s", text, tt.schema)
		}
	}
}

func TestCombinedBoundsAreExactAbove2To53(t *testing.T) {
	for _, order := range []string{
		`{"type":"integer","minimum":%[1]s},{"minimum":%[2]s}`,
		`{"type":"integer","minimum":%[2]s},{"minimum":%[1]s}`,
		`{"type":"integer","maximum":-%[1]s},{"maximum":-%[2]s}`,
		`{"type":"integer","maximum":-%[2]s},{"maximum":-%[1]s}`,
	} {
		schema := `{"allOf":[` + fmt.Sprintf(order, "9007199254740992", "9007199254740993") + `]}`
		sign := ""
		if strings.Contains(schema, "max") {
			sign = "-"
		}
		g := parseSchema(t, schema)
		require.True(t, readsAll(g, sign+"9007199254740993"), schema)
		require.False(t, readsAll(g, sign+"9007199254740992"), schema)
	}
	g := parseSchema(t, `{"allOf":[{"type":"number","maximum":1e999},{"maximum":5}]}`)
	require.True(t, readsAll(g, "5"))
	require.False(t, readsAll(g, "6"))
}
