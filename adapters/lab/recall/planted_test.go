package recall

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
)

// plantedPrompt returns a random text with the answers to half of the keys at random places, and a
// question for one of them.
func plantedPrompt(rng *rand.Rand, tokens int) (prompt []int32, answer int32) {
	prompt = []int32{1}
	for len(prompt) < tokens-1 {
		prompt = append(prompt, modeltest.Filler(rng.IntN(modeltest.RetrievalFillers)))
	}
	asked := -1
	for _, key := range rng.Perm(modeltest.RetrievalKeys)[:modeltest.RetrievalKeys/2] {
		at := 1 + rng.IntN(tokens-2)
		for prompt[at] >= modeltest.Question(0) { // the place has an answer already
			at = 1 + rng.IntN(tokens-2)
		}
		asked, answer = key, modeltest.Answer(key, rng.IntN(modeltest.RetrievalValues))
		prompt[at] = answer
	}
	return append(prompt, modeltest.Question(asked)), answer
}

// TestPlantedAnswersAreFoundBeyondTheSlots asks a model with a planted retrieval head for one of
// four tokens of a text with four times as many tokens as slots.
func TestPlantedAnswersAreFoundBeyondTheSlots(t *testing.T) {
	const slots, tokens, trials = 192, 4 * 192, 200
	path := filepath.Join(t.TempDir(), "planted.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, modeltest.Retrieval(rand.New(rand.NewPCG(1, 2)), tokens).Write(file))
	require.NoError(t, file.Close())
	m, tok := testfile.Open(t, path)
	recipe, err := model.FindRecipe("f32")
	require.NoError(t, err)
	open := func(slots int) *engine.Engine {
		e, err := engine.New(t.Context(), cpu.New(cpu.Options{}), m, tok, engine.Options{Recipe: recipe, Rows: []int{32, 1}, Context: tokens, Slots: slots, HeadRows: 1})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	found := func(e *engine.Engine, tokens, trials int) (n int) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range trials {
			prompt, answer := plantedPrompt(rng, tokens)
			report, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 1}, func(engine.Piece) error { return nil })
			require.NoError(t, err)
			if report.Output[0] == answer {
				n++
			}
		}
		return n
	}
	require.Equal(t, 20, found(open(0), slots, 20), "the model finds its answers with dense attention")
	n := found(open(slots), tokens, trials)
	t.Logf("%d of %d answers found in texts of %d tokens on %d slots", n, trials, tokens, slots)
	require.GreaterOrEqual(t, n, trials*95/100)
}
