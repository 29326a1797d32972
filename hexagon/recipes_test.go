package hexagon

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// way is how a text goes through an engine: rows per pass, and the sequence,
// whose number is the place of its past in the cache.
type way struct{ rows, sequence int }

// ways are compared with the first: other widths, and another place.
var ways = []way{{32, 0}, {1, 0}, {8, 0}, {32, 2}}

// recipeTokens is the length of the text.
const recipeTokens = 64

// calibratedRecipe is a recipe with the ranges of a model in a text.
func calibratedRecipe(t *testing.T, m *model.Model, r model.Recipe, text []int32) model.Recipe {
	t.Helper()
	if r.NeedsRanges() {
		exact, err := model.FindRecipe("f32")
		require.NoError(t, err)
		r.Ranges, err = chain.Calibrate(t.Context(), cpu.New(cpu.Options{}), m, [][]int32{text}, chain.Options{Recipe: exact, Rows: 64}, nil)
		require.NoError(t, err)
	}
	return r
}

// outcomes are a text's logits by each of ways.
func (l *recipeLab) outcomes(t *testing.T, d backend.Device, r model.Recipe) (logits [][][]float32) {
	t.Helper()
	e, err := engine.New(t.Context(), d, l.model, l.tokenizer, engine.Options{
		Recipe: calibratedRecipe(t, l.model, r, l.text), Rows: []int{32, 8, 1}, HeadRows: 32, Context: 96, Sequences: 3,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	for _, w := range ways {
		logits = append(logits, nil)
		for part := range slices.Chunk(l.text, w.rows) {
			var p engine.Pass
			var path []int
			for i, token := range part {
				p.Rows = append(p.Rows, engine.Row{Token: token, Sequence: w.sequence, Parent: i - 1, Logits: true})
				path = append(path, i)
			}
			r, err := e.Forward(t.Context(), p)
			require.NoError(t, err)
			for _, row := range r.Logits {
				logits[len(logits)-1] = append(logits[len(logits)-1], slices.Clone(row))
			}
			require.NoError(t, e.Commit(w.sequence, path))
		}
		require.NoError(t, e.Truncate(w.sequence, 0))
	}
	return logits
}

// recipeLab is a model and a text that it would tell.
type recipeLab struct {
	model     *model.Model
	tokenizer *tokenizer.Tokenizer
	text      []int32
}

func newRecipeLab(t *testing.T) *recipeLab {
	t.Helper()
	f, err := gguf.Open(filepath.Join(models, "stories260K-f16.gguf"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	l := &recipeLab{text: recorded(t, "f16")[1].text()[:recipeTokens]}
	l.model, err = model.Load(f)
	require.NoError(t, err)
	l.tokenizer, err = tokenizer.New(f)
	require.NoError(t, err)
	return l
}

// TestEveryRecipeIsExactOnTheEmulator is what lossless means there: neither the
// width of a graph nor the place of the past changes a bit.
func TestEveryRecipeIsExactOnTheEmulator(t *testing.T) {
	l, d := newRecipeLab(t), openDevice(t, librarytest.Emulator(t))
	digests := make(map[float32]string)
	for _, r := range model.Recipes {
		outcomes := l.outcomes(t, d, r)
		for i, w := range ways[1:] {
			require.Equal(t, outcomes[0], outcomes[i+1], "%s: %+v and %+v", r.Name, ways[0], w)
		}
		sum := float32(0)
		for _, v := range outcomes[0][recipeTokens-1] {
			sum += v
		}
		require.Empty(t, digests[sum], "%s computes what another recipe does", r.Name)
		digests[sum] = r.Name
	}
	require.Len(t, slices.Collect(maps.Keys(digests)), len(model.Recipes))
}

// TestRecipesOnTheVendorsLibrary measures what lossless can mean there: its log
// says how many logits have the same bits, and how many choices differ.
func TestRecipesOnTheVendorsLibrary(t *testing.T) {
	path := librarytest.Vendor(t)
	if !librarytest.Full() {
		t.Skip("takes minutes: SDNPU_FULL=1 runs it")
	}
	l, d := newRecipeLab(t), openDevice(t, path)
	for _, r := range model.Recipes {
		outcomes := l.outcomes(t, d, r)
		for i, w := range ways[1:] {
			t.Log(recipeRow(r.Name, w, outcomes[0], outcomes[i+1]))
			require.Less(t, flips(outcomes[0], outcomes[i+1]), recipeTokens/16, "%s: %+v", r.Name, w)
		}
	}
}

// flips counts the choices that differ.
func flips(want, got [][]float32) (n int) {
	for i := range want {
		if argmax(want[i]) != argmax(got[i]) {
			n++
		}
	}
	return n
}

// recipeRow compares the logits of one way with those of the first.
func recipeRow(recipe string, w way, want, got [][]float32) string {
	equal, all := 0, 0
	for i := range want {
		for j, v := range want[i] {
			all++
			if v == got[i][j] {
				equal++
			}
		}
	}
	return fmt.Sprintf("%s, %+v against %+v: %.2f %% of logits equal, %d of %d choices differ",
		recipe, w, ways[0], 100*float64(equal)/float64(all), flips(want, got), len(want))
}
