package whole

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
	"github.com/sdnpu/sdnpu/integration_test/randommodel"
)

// A pass of promptRows tokens is followed by passes of one.
const promptRows = 32

// subject is a model to run whole.
type subject struct {
	// name is what tables call it.
	name string
	// file is the GGUF, layers how many of its layers are run, 0 for all.
	file   func(t *testing.T) string
	layers int
	// blocks are the runs of layers compiled apart, 0 for one a layer.
	blocks int
	// prompt has promptRows tokens; steps is how many tokens follow.
	prompt func(t *testing.T) []int32
	steps  int
}

// stories are models that the repository carries.
func story(name string) func(t *testing.T) string {
	return func(*testing.T) string {
		return filepath.Join("..", "..", "integration_test", "models", "stories260K-"+name+".gguf")
	}
}

// storyText is the beginning of a recorded story.
func storyText(name string) func(t *testing.T) []int32 {
	return func(t *testing.T) []int32 {
		data, err := os.ReadFile(filepath.Join("..", "..", "integration_test", "models", "expected.json"))
		require.NoError(t, err)
		var expected map[string]struct {
			Generations []struct {
				Prompt []int32 `json:"prompt_ids"`
				Greedy []int32 `json:"greedy_ids"`
			} `json:"generations"`
		}
		require.NoError(t, json.Unmarshal(data, &expected))
		require.NotEmpty(t, expected[name].Generations)
		g := expected[name].Generations[0]
		text := append(g.Prompt, g.Greedy...)
		require.GreaterOrEqual(t, len(text), promptRows)
		return text[:promptRows]
	}
}

const smollm = "smollm2-135m-instruct-q4_1"

func smollmFile(t *testing.T) string { return librarytest.Data(t, "models", smollm+".gguf") }

// smollmText is the beginning of a recorded prompt.
func smollmText(t *testing.T) []int32 {
	f, err := os.Open(librarytest.Data(t, "traces", smollm+".jsonl"))
	require.NoError(t, err)
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	require.NoError(t, err)
	var recorded struct {
		PromptIDs []int32 `json:"prompt_ids"`
	}
	require.NoError(t, json.Unmarshal(line, &recorded))
	return recorded.PromptIDs[:promptRows]
}

// open loads the subject's model; one of fewer layers is cut out first.
func (s subject) open(t *testing.T) (*model.Model, *tokenizer.Tokenizer) {
	t.Helper()
	f, err := gguf.Open(s.file(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	if s.layers > 0 {
		path := filepath.Join(t.TempDir(), "cut.gguf")
		out, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, randommodel.Cut(out, f, s.layers))
		require.NoError(t, out.Close())
		f, err = gguf.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
	}
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	return m, tok
}

// engine puts the subject on a device.
func (s subject) engine(t *testing.T, d backend.Device, recipe string, cache *imagecache.Store) *engine.Engine {
	t.Helper()
	m, tok := s.open(t)
	r, err := model.FindRecipe(recipe)
	require.NoError(t, err)
	blocks := s.blocks
	if blocks == 0 {
		blocks = m.Config().Layers
	}
	e, err := engine.New(t.Context(), d, m, tok, engine.Options{
		Recipe: r, Rows: []int{promptRows, 1}, Blocks: blocks, Context: 128, FirstContext: 128, Cache: cache,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// pass runs tokens behind what the engine holds and returns the last one's
// logits.
func pass(t *testing.T, e *engine.Engine, tokens []int32) []float32 {
	t.Helper()
	var p engine.Pass
	path := make([]int, len(tokens))
	for i, token := range tokens {
		p.Rows = append(p.Rows, engine.Row{Token: token, Parent: i - 1, Logits: i == len(tokens)-1})
		path[i] = i
	}
	r, err := e.Forward(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, e.Commit(0, path))
	return r.Logits[len(tokens)-1]
}
