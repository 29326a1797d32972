package integration_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/backend/grammar"
	"github.com/sdnpu/sdnpu/backend/grammar/schematest"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// TestSmolLM2AnswersRandomSchemas draws values of random schemas with SmolLM2 on the
// emulator, with and without drafts, greedy and sampled. Drafts must not change a text, and
// another implementation of JSON schemas must accept each value. SDNPU_FULL=1 draws values
// of 1000 schemas.
func TestSmolLM2AnswersRandomSchemas(t *testing.T) {
	skipShort(t)
	folder := dataFolder(t)
	_, tok := testfile.Open(t, filepath.Join(folder, "models", "smollm2-135m-instruct-q4_1.gguf"))
	prompt, err := tok.Encode("<|im_start|>user\nDescribe a traveller as JSON.<|im_end|>\n<|im_start|>assistant\n", tokenizer.EncodeOptions{ParseSpecial: true})
	require.NoError(t, err)
	o := engine.Options{Context: 512, Rows: []int{32, 8, 1}}
	plain := openSmolLM(t, folder, openEmulator(t), "f16", o)
	o.Draft, err = draft.Parse("default")
	require.NoError(t, err)
	drafted := openSmolLM(t, folder, openEmulator(t), "f16", o)
	schemas := uint64(8)
	if full() {
		schemas = 1000
	}
	ended, tokens, passes := 0, 0, 0
	for seed := range schemas {
		rng := rand.New(rand.NewPCG(seed, 21))
		raw, err := json.Marshal(schematest.DrawObject(rng, 2, "name", "age", "home"))
		require.NoError(t, err)
		g, err := grammar.ParseSchema(raw)
		require.NoError(t, err, "%s", raw)
		for _, temperature := range []float32{0, 1} {
			r := engine.Request{Prompt: prompt, MaxTokens: 400, Grammar: g, Sampling: sampler.Options{Temperature: temperature, TopK: 40, TopP: 0.95, Seed: seed}}
			want, report := answerTo(t, plain, r)
			got, draftedReport := answerTo(t, drafted, r)
			require.Equal(t, want, got, "%s, temperature %v", raw, temperature)
			tokens, passes = tokens+len(report.Output), passes+draftedReport.Steps
			if report.Stop == engine.StopEOS {
				ended++
				schematest.RequireValid(t, raw, got)
			} else {
				require.Equal(t, engine.StopLimit, report.Stop)
			}
		}
		if seed%10 == 9 {
			t.Logf("%d schemas: %d of %d texts ended and are valid; %d tokens took %d passes with drafts", seed+1, ended, 2*seed+2, tokens, passes)
		}
	}
	require.Greater(t, ended, int(schemas))
	require.Less(t, passes, tokens)
}

func answerTo(t *testing.T, e *engine.Engine, r engine.Request) (text string, report engine.Report) {
	t.Helper()
	var b strings.Builder
	report, err := e.Generate(t.Context(), r, func(p engine.Piece) error {
		b.WriteString(p.Text)
		return nil
	})
	require.NoError(t, err)
	return b.String(), report
}
