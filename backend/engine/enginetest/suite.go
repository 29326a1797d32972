package enginetest

import (
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
)

// Options says what to demand of a device.
type Options struct {
	// Recipe is the name of the precision to run with. Empty means "f32".
	Recipe string
	// Models names the files whose recorded texts are compared, as in
	// expected.json. None means those that other implementations agree on.
	Models []string
	// RowExact demands equal bits however a text is cut into passes. Without
	// it the differences are held against Tolerance and logged.
	RowExact bool
	// Tolerance is the largest difference of logits, keys and values.
	Tolerance float64
	// Gap excuses the first different token of a text where the two best
	// logits of the float device are closer than this. Zero excuses nothing.
	Gap float64
	// Brief takes a part of each test: for devices, and builds with the race
	// detector, on which one token takes a tenth of a second.
	Brief bool
}

// defaultModels are those whose texts llama.cpp gives as well.
var defaultModels = []string{"f32", "f16", "ffn192-f16", "qwen2-f16"}

// suite is what the tests share.
type suite struct {
	options   Options
	recipe    model.Recipe
	newDevice func(t *testing.T) backend.Device
	dir       string
	expected  map[string]struct {
		Generations []recording `json:"generations"`
	}
	images string // folder of the image cache
}

// recording is one text of an independent implementation.
type recording struct {
	Prompt []int32 `json:"prompt_ids"`
	Greedy []int32 `json:"greedy_ids"`
}

// Run tests package engine on the devices that open returns, with the models
// in modelDir. Devices are opened one after another, and closed.
func Run(t *testing.T, open func(t *testing.T) backend.Device, modelDir string, options Options) {
	t.Helper()
	if options.Recipe == "" {
		options.Recipe = "f32"
	}
	if len(options.Models) == 0 {
		options.Models = defaultModels
	}
	s := &suite{options: options, newDevice: open, dir: modelDir, images: t.TempDir()}
	var err error
	s.recipe, err = model.FindRecipe(options.Recipe)
	require.NoError(t, err)
	recorded, err := os.ReadFile(filepath.Join(modelDir, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(recorded, &s.expected))

	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"greedy", greedy},
		{"split", split},
		{"families", families},
		{"tree", tree},
		{"branch", branch},
		{"two-sequences", twoSequences},
		{"prefix-reuse", prefixReuse},
		{"leftovers", leftovers},
		{"concurrent", concurrent},
		{"drafts", drafts},
		{"growth", growth},
		{"grown-texts", grownTexts},
		{"shift", shift},
		{"failing-run", failingRun},
		{"cancelled-run", cancelledRun},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// some is how much a test takes of something.
func (s *suite) some(all, brief int) int {
	if s.options.Brief {
		return brief
	}
	return all
}

// device opens a device that is closed after the test.
func (s *suite) device(t *testing.T) backend.Device {
	t.Helper()
	dev := s.newDevice(t)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// engine loads a model by its name in expected.json.
func (s *suite) engine(t *testing.T, name string, dev backend.Device, o engine.Options) *engine.Engine {
	t.Helper()
	return s.open(t, filepath.Join(s.dir, "stories260K-"+name+".gguf"), dev, o)
}

// open loads a model file.
func (s *suite) open(t *testing.T, path string, dev backend.Device, o engine.Options) *engine.Engine {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	if o.Recipe == (model.Recipe{}) {
		o.Recipe = s.recipe
	}
	if o.Cache == nil {
		// One for the whole suite: compiling is slow on some devices.
		o.Cache, err = imagecache.Open(s.images, imagecache.Options{})
		require.NoError(t, err)
	}
	e, err := engine.New(t.Context(), dev, m, tok, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// story is a text of at least 200 tokens that the first model wrote itself.
func (s *suite) story() (name string, tokens []int32) {
	name = s.options.Models[0]
	r := s.expected[name].Generations[0]
	return name, append(append([]int32(nil), r.Prompt...), r.Greedy...)
}
