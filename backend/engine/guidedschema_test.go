package engine_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/grammar"
	"github.com/sdnpu/sdnpu/backend/grammar/schematest"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// TestAnswersToRandomSchemasAreValid draws values of random schemas with and without
// drafts, greedy and sampled. Drafts are not automatic, because their number would depend on this
// machine's times. SDNPU_FULL=1 draws 1000.
func TestAnswersToRandomSchemasAreValid(t *testing.T) {
	schemas := uint64(40)
	if os.Getenv("SDNPU_FULL") == "1" {
		schemas = 1000
	}
	plain, _ := start(t, newDevice(), engine.Options{Context: 512, FirstContext: 256, Rows: []int{32, 1}})
	o := drafting(t, "default", 32, 8, 1)
	o.Context, o.FirstContext = 512, 256
	drafted, _ := start(t, newDevice(), o)
	ended, accepted := 0, 0
	for seed := range schemas {
		rng := rand.New(rand.NewPCG(seed, 8))
		raw, err := json.Marshal(schematest.DrawObject(rng, 2, "first", "second"))
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
				schematest.RequireValid(t, raw, got.text)
			}
		}
	}
	t.Logf("%d of %d texts ended, %d drafts accepted", ended, 2*schemas, accepted)
	require.Greater(t, ended, int(schemas))
	require.Greater(t, accepted, int(schemas))
}
