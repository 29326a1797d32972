package hexagon

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// tie is how close the two best logits of the float device must be for another
// choice to be excused.
const tie = 0.02

// skipSlow leaves the vendor's library, which takes a quarter of a second a
// pass, out of short runs.
func skipSlow(t *testing.T, path string) {
	t.Helper()
	if testing.Short() && path != librarytest.Emulator(t) {
		t.Skip("takes minutes on the vendor's library: run without -short")
	}
}

// story is a text that an independent implementation chose greedily.
type story struct {
	Prompt []int32 `json:"prompt_ids"`
	Greedy []int32 `json:"greedy_ids"`
}

func (s story) text() []int32 { return slices.Concat(s.Prompt, s.Greedy) }

// recorded returns the texts of a model.
func recorded(t *testing.T, name string) []story {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(models, "expected.json"))
	require.NoError(t, err)
	var expected map[string]struct {
		Generations []story `json:"generations"`
	}
	require.NoError(t, json.Unmarshal(data, &expected))
	require.NotEmpty(t, expected[name].Generations, name)
	return expected[name].Generations
}

// newEngine loads a model of the repository.
func newEngine(t *testing.T, d backend.Device, name, recipe string, o engine.Options) *engine.Engine {
	t.Helper()
	f, err := gguf.Open(filepath.Join(models, "stories260K-"+name+".gguf"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	o.Recipe, err = model.FindRecipe(recipe)
	require.NoError(t, err)
	o.Context = 256
	e, err := engine.New(t.Context(), d, m, tok, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// feed sends a text through an empty engine in passes of rows and returns the
// logits behind each token.
func feed(t *testing.T, e *engine.Engine, text []int32, rows int) (logits [][]float32) {
	t.Helper()
	require.NoError(t, e.Truncate(0, 0))
	for part := range slices.Chunk(text, rows) {
		var p engine.Pass
		var path []int
		for i, token := range part {
			p.Rows = append(p.Rows, engine.Row{Token: token, Parent: i - 1, Logits: true})
			path = append(path, i)
		}
		r, err := e.Forward(t.Context(), p)
		require.NoError(t, err)
		for _, l := range r.Logits {
			logits = append(logits, slices.Clone(l))
		}
		require.NoError(t, e.Commit(0, path))
	}
	return logits
}

// argmax is the lowest id of the largest logit.
func argmax(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// judge compares a choice with the recorded one. Another one is excused where
// the float device prefers the recorded one by less than a tie.
func judge(t *testing.T, where string, float []float32, want, got int32) (same bool) {
	t.Helper()
	if want == got {
		return true
	}
	gap := float[want] - float[got]
	t.Logf("%s: token %d where %d is recorded; the float device's gap is %.4f", where, got, want, gap)
	require.Less(t, math.Abs(float64(gap)), tie, "%s: the float device is sure", where)
	return false
}

// storyModels are those whose texts llama.cpp gives as well.
var storyModels = []string{"f32", "f16", "ffn192-f16", "qwen2-f16"}

// onFreshAndCachedImages opens a library and a model twice: the first time
// everything is compiled, the second time loaded from the cache.
func onFreshAndCachedImages(t *testing.T, path, name string, o engine.Options, test func(t *testing.T, e *engine.Engine)) {
	cache, err := imagecache.Open(t.TempDir(), imagecache.Options{})
	require.NoError(t, err)
	o.Cache = cache
	for _, cached := range []bool{false, true} {
		t.Run(map[bool]string{false: "fresh", true: "cached"}[cached], func(t *testing.T) {
			o.Progress = func(p engine.Progress) {
				if p.Done == p.Total && p.Cached != cached {
					t.Errorf("%s: from the cache: %v", p.Graph, p.Cached)
				}
			}
			test(t, newEngine(t, openDevice(t, path), name, "f16", o))
		})
	}
}

// TestStoriesAreChosenTokenForToken feeds recorded texts in wide passes, so
// that each position's choice is one of greedy decoding. A pass costs the
// vendor's library alike whatever its width, hence the narrow ones only in the
// long version, and not all texts again from cached images.
func TestStoriesAreChosenTokenForToken(t *testing.T) {
	groups := [][]int{{128, 32}}
	if librarytest.Full() {
		groups = [][]int{{128}, {32}, {8}, {1}}
	}
	onEachLibrary(t, func(t *testing.T, path string) {
		skipSlow(t, path)
		for _, name := range storyModels {
			float := newEngine(t, cpu.New(cpu.Options{}), name, "f32", engine.Options{})
			for _, widths := range groups {
				t.Run(fmt.Sprintf("%s by %v rows", name, widths), func(t *testing.T) {
					began := time.Now()
					stories := recorded(t, name)
					var before [][][]float32
					o := engine.Options{Rows: widths, HeadRows: widths[0]}
					onFreshAndCachedImages(t, path, name, o, func(t *testing.T, e *engine.Engine) {
						if before != nil {
							const again = 1
							require.Equal(t, before[again], feed(t, e, stories[again].text(), widths[again%len(widths)]),
								"images out of the cache give other logits")
							return
						}
						for i, s := range stories {
							before = append(before, chosen(t, float, e, i, s, widths[i%len(widths)]))
						}
					})
					t.Logf("took %v", time.Since(began).Round(time.Millisecond))
				})
			}
		}
	})
}

// chosen feeds one text and judges each choice; it returns all logits.
func chosen(t *testing.T, float, e *engine.Engine, number int, s story, rows int) [][]float32 {
	t.Helper()
	text, last := s.text(), len(s.Prompt)-1
	logits := feed(t, e, text, rows)
	exact := feed(t, float, text, 128)
	for i, want := range s.Greedy {
		judge(t, fmt.Sprintf("text %d, token %d", number, i), exact[last+i], want, argmax(logits[last+i]))
	}
	return logits
}

// TestStoriesAreToldByTheEngine decodes greedily, token by token.
func TestStoriesAreToldByTheEngine(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		skipSlow(t, path)
		for _, name := range storyModels {
			t.Run(name, func(t *testing.T) {
				stories, n := recorded(t, name), math.MaxInt
				if !librarytest.Full() {
					stories, n = stories[1:2], 24
				}
				float := newEngine(t, cpu.New(cpu.Options{}), name, "f32", engine.Options{})
				began := time.Now()
				onFreshAndCachedImages(t, path, name, engine.Options{Rows: []int{32, 1}}, func(t *testing.T, e *engine.Engine) {
					for i, s := range stories {
						s.Greedy = s.Greedy[:min(n, len(s.Greedy))]
						told(t, float, e, i, s)
					}
				})
				t.Logf("took %v", time.Since(began).Round(time.Millisecond))
			})
		}
	})
}

// told generates one text; behind an excused difference it may be any.
func told(t *testing.T, float, e *engine.Engine, number int, s story) {
	t.Helper()
	r, err := e.Generate(t.Context(), engine.Request{Prompt: s.Prompt, MaxTokens: len(s.Greedy)}, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	require.Equal(t, engine.StopLimit, r.Stop)
	require.Positive(t, r.Ops[backend.NPU])
	require.Len(t, r.Ops, 1, "nothing runs on another lane")
	require.Len(t, r.Output, len(s.Greedy))
	exact := feed(t, float, s.text(), 128)[len(s.Prompt)-1:]
	for i, want := range s.Greedy {
		if !judge(t, fmt.Sprintf("text %d, token %d", number, i), exact[i], want, r.Output[i]) {
			return
		}
	}
}
