package engine_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/grammar"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

type schema = map[string]any

// randomSchema returns a schema whose values are short.
func randomSchema(rng *rand.Rand, depth int) any {
	kind := rng.IntN(12)
	if depth == 0 {
		kind = rng.IntN(8)
	}
	switch kind {
	case 0:
		return schema{"type": []any{"boolean", "null"}}
	case 1:
		low := rng.IntN(200) - 100
		return schema{"type": "integer", "minimum": low, "exclusiveMaximum": low + 1 + rng.IntN(50)}
	case 2:
		return schema{"type": "number", "exclusiveMinimum": -0.5, "maximum": float64(rng.IntN(100)) / 8}
	case 3, 4:
		return schema{"type": "string", "minLength": rng.IntN(3), "maxLength": 3 + rng.IntN(8)}
	case 5:
		return schema{"enum": []any{"red", "blå \"x\"", rng.IntN(9), nil, schema{"k": []any{true}}}[rng.IntN(3):]}
	case 6:
		return schema{"type": "string", "pattern": []string{`^[a-f]{2,4}-\d?$`, `^(yes|no|[^a-z\s]{1,3})$`, `^.{0,4}$`}[rng.IntN(3)]}
	case 7:
		return schema{"type": "string", "format": []string{"date", "time", "date-time", "uuid"}[rng.IntN(4)]}
	case 8:
		return schema{"type": "array", "items": randomSchema(rng, depth-1), "minItems": rng.IntN(2), "maxItems": 1 + rng.IntN(3)}
	case 9:
		return schema{"anyOf": []any{randomSchema(rng, depth-1), randomSchema(rng, depth-1)}}
	case 10:
		return schema{"allOf": []any{randomObject(rng, depth-1, "a", "b"), randomObject(rng, depth-1, "c")}}
	}
	return randomObject(rng, depth-1, "name", "a \"b\"", "größe", "n")
}

func randomObject(rng *rand.Rand, depth int, names ...string) any {
	properties, required := schema{}, []any{}
	for _, name := range names {
		properties[name] = randomSchema(rng, max(depth, 0))
		if rng.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	return schema{"type": "object", "properties": properties, "required": required}
}

// checkValue checks a text with another implementation of JSON schemas.
func checkValue(t *testing.T, raw []byte, text string) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", document))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err, "%s", raw)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, "%s: %q", raw, text)
	require.NoError(t, compiled.Validate(value), "%s: %q", raw, text)
}

// TestAnswersToRandomSchemasAreValid draws values of random schemas with and without
// drafts, greedy and sampled. SDNPU_FULL=1 draws 1000.
func TestAnswersToRandomSchemasAreValid(t *testing.T) {
	schemas := uint64(40)
	if os.Getenv("SDNPU_FULL") == "1" {
		schemas = 1000
	}
	plain, _ := start(t, newDevice(), engine.Options{Context: 512, FirstContext: 256, Rows: []int{32, 1}})
	o := drafting(t, "auto", 32, 8, 1)
	o.Context, o.FirstContext = 512, 256
	drafted, _ := start(t, newDevice(), o)
	ended, accepted := 0, 0
	for seed := range schemas {
		rng := rand.New(rand.NewPCG(seed, 8))
		raw, err := json.Marshal(randomObject(rng, 2, "first", "second"))
		require.NoError(t, err)
		g, err := grammar.ParseSchema(raw)
		require.NoError(t, err, "%s", raw)
		for _, temperature := range []float32{0, 1} {
			r := engine.Request{Prompt: begin, MaxTokens: 480, Grammar: g, Sampling: sampler.Options{Temperature: temperature, TopK: 40, TopP: 0.9, Seed: seed}}
			want, _ := outcomeOf(t, plain, r)
			got, report := outcomeOf(t, drafted, r)
			require.Equal(t, want, got, "%s, temperature %v", raw, temperature)
			accepted += report.AcceptedRows
			if got.stop == string(engine.StopEOS) {
				ended++
				checkValue(t, raw, got.text)
			}
		}
	}
	t.Logf("%d of %d texts ended, %d drafts accepted", ended, 2*schemas, accepted)
	require.Greater(t, ended, int(schemas))
	require.Greater(t, accepted, int(schemas))
}
