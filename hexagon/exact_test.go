package hexagon

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// open makes an engine of the lab's model by a recipe that needs no more.
func (l *recipeLab) open(t *testing.T, d backend.Device, r model.Recipe, o engine.Options) *engine.Engine {
	t.Helper()
	o.Recipe, o.FirstContext = r, o.Context
	e, err := engine.New(t.Context(), d, l.model, l.tokenizer, o)
	require.NoError(t, err)
	return e
}

// answer is what an engine makes of a prompt: its report, every piece with its
// log-probabilities, and the keys and values that are left.
type answer struct {
	report engine.Report
	pieces string
	cache  []byte
}

// answered continues a prompt by n tokens and closes the engine.
func answered(t *testing.T, e *engine.Engine, prompt []int32, n int) (o answer) {
	t.Helper()
	var err error
	o.report, err = e.Generate(t.Context(), engine.Request{Prompt: prompt, MaxTokens: n, IgnoreEOS: true, Logprobs: 2}, func(p engine.Piece) error {
		o.pieces += fmt.Sprint(p)
		return nil
	})
	require.NoError(t, err)
	o.cache, err = e.ReadCache(nil, 0)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	return o
}

// answeredTwice continues a prompt that repeats itself on one exact width, without
// drafts and with them, of which some are accepted and some are not.
func (l *recipeLab) answeredTwice(t *testing.T, d backend.Device, name string) (plain, drafted answer) {
	t.Helper()
	mode, err := draft.Parse("default")
	require.NoError(t, err)
	r, err := model.FindRecipe(name)
	require.NoError(t, err)
	prompt := slices.Concat(l.text[:20], l.text[:20], l.text[:10])
	o := engine.Options{Rows: []int{16, 8}, Context: recipeContext, Exact: true}
	r = calibratedRecipe(t, l.model, r, l.text)
	plain = answered(t, l.open(t, d, r, o), prompt, 30)
	o.Draft = mode
	drafted = answered(t, l.open(t, d, r, o), prompt, 30)
	require.Positive(t, drafted.report.AcceptedRows)
	require.Greater(t, drafted.report.DraftedRows, drafted.report.AcceptedRows)
	require.Zero(t, plain.report.DraftedRows)
	return plain, drafted
}

// TestAnExactWidthIsExactOnTheEmulator: texts with drafts, log-probabilities,
// keys and values are those without, and no bit depends on how a text is cut.
func TestAnExactWidthIsExactOnTheEmulator(t *testing.T) {
	l, d := newRecipeLab(t), openDevice(t, librarytest.Emulator(t))
	for _, name := range []string{"f16", "w8a16", "w4a16-lpbq"} {
		plain, drafted := l.answeredTwice(t, d, name)
		require.Equal(t, plain.report.Output, drafted.report.Output, name)
		require.Equal(t, plain.pieces, drafted.pieces, name)
		require.Equal(t, plain.cache, drafted.cache, name)
		r, err := model.FindRecipe(name)
		require.NoError(t, err)
		e := l.open(t, d, calibratedRecipe(t, l.model, r, l.text), engine.Options{Rows: []int{8}, Context: recipeContext, Exact: true})
		f, err := e.MeasureFlips(t.Context(), l.text, 32)
		require.NoError(t, err)
		require.Equal(t, &engine.Flips{Positions: 32, Widths: []engine.WidthFlip{{Rows: 8, Valid: 8, Equal: 32}}}, f)
		require.NoError(t, e.Close())
	}
}

// TestDraftsUnderAnExactWidthOnTheVendorsLibrary: they change no token there.
func TestDraftsUnderAnExactWidthOnTheVendorsLibrary(t *testing.T) {
	l, d := newRecipeLab(t), openDevice(t, librarytest.VendorAtLength(t))
	for _, name := range []string{"f16", "w8a16"} {
		plain, drafted := l.answeredTwice(t, d, name)
		require.Len(t, plain.report.Output, 30, name)
		require.Equal(t, plain.report.Output, drafted.report.Output, name)
		t.Logf("%s: %d of %d drafted rows accepted, %d and %d passes; pieces with log-probabilities equal: %t; keys and values: %t", name,
			drafted.report.AcceptedRows, drafted.report.DraftedRows, plain.report.Steps, drafted.report.Steps,
			plain.pieces == drafted.pieces, slices.Equal(plain.cache, drafted.cache))
	}
}

// TestAnExactWidthEndsAFlipOfTheVendorsLibrary: at one of these tokens of
// stories260K, in f16, a graph of 32 rows says otherwise than one of one row. On
// 32 rows alone full passes say what single tokens say.
func TestAnExactWidthEndsAFlipOfTheVendorsLibrary(t *testing.T) {
	l, d := newRecipeLab(t), openDevice(t, librarytest.VendorAtLength(t))
	raw, err := os.ReadFile(filepath.Join("..", "adapters", "sdnpu", "calibration", "check.txt"))
	require.NoError(t, err)
	text, err := l.tokenizer.Encode(strings.ReplaceAll(string(raw), "\n=====\n", "\n"), tokenizer.EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	r, err := model.FindRecipe("f16")
	require.NoError(t, err)
	for _, exact := range []bool{false, true} {
		rows := []int{32, 1}
		if exact {
			rows = rows[:1]
		}
		e := l.open(t, d, r, engine.Options{Rows: rows, HeadRows: 32, Context: 256, Exact: exact})
		f, err := e.MeasureFlips(t.Context(), text[:flipAt+4], flipAt-8)
		require.NoError(t, err)
		t.Logf("exact %t: %+v", exact, *f)
		require.Equal(t, !exact, f.Flipped > 0)
		require.NoError(t, e.Close())
	}
}

// flipAt is the token whose successor depends on the width, of the text that
// recipes are checked with.
const flipAt = 189

// exactWidths are those that the table compares: drafts' usual one, and a
// smaller one.
var exactWidths = []int{32, 8}

// TestExactWidthsOnTheVendorsLibrary measures whether one width makes rows
// independent of what else their pass holds: whether sdnpu.exact promises bits
// there or a rate. With -update it writes the table's third part.
func TestExactWidthsOnTheVendorsLibrary(t *testing.T) {
	const positions = 16
	recipes := measuredRecipes(t)
	var table string
	if *update || librarytest.Full() {
		l, d := newRecipeLab(t), openDevice(t, librarytest.Vendor(t))
		for _, r := range recipes {
			calibrated := calibratedRecipe(t, l.model, r, l.text)
			for _, rows := range exactWidths {
				e := l.open(t, d, calibrated, engine.Options{Rows: []int{rows}, Context: recipeContext, Exact: true})
				f, err := e.MeasureFlips(t.Context(), l.text, len(l.text)-positions)
				require.NoError(t, err)
				require.NoError(t, e.Close())
				w := f.Widths[0]
				row := fmt.Sprintf("| %s | %d | %d | %d of %d | %d of %d |\n", r.Name, rows, w.Valid, w.Equal, f.Positions, w.Flipped, f.Positions)
				t.Log(row)
				table += row
			}
		}
	}
	first, second, written := writtenWidths(t)
	if *update {
		written = table
		require.NoError(t, os.WriteFile(widthsFile, []byte(first+recipesTitle+second+exactTitle+table), 0o644))
	}
	shape := regexp.MustCompile(`^\| [a-z0-9+-]+ \|( \d+ \|){2}( \d+ of 16 \|){2}$`)
	lines := strings.Split(strings.TrimSuffix(written, "\n"), "\n")
	require.Len(t, lines, len(recipes)*len(exactWidths))
	for i, line := range lines {
		require.Regexp(t, shape, line)
		require.Contains(t, line, "| "+recipes[i/len(exactWidths)].Name+" |", "lines for each recipe")
	}
	if table != "" {
		t.Logf("measured anew, every figure is the written one: %v", table == written)
	}
}

// exactTitle opens the third part of the table.
const exactTitle = `
## One width

The last 16 of the same 64 tokens, in passes of as many tokens as "valid" says and in passes of one, all on
graphs of the same rows and 96 slots, library build v2.51.0.260929181845: at how many tokens all logits have
the same bits, and how many first choices differ. Where all are equal, texts with drafts are those without to
the bit under sdnpu.exact. It depends on the slots, too: on 8 rows and 512 slots f16 had equal bits at 2 of 64
tokens and no other choice (SDNPU_ROWS=128,32,8 SDNPU_EXACT=on sdnpu doctor stories260K-f16.gguf), because an
earlier token's place, in the pass or in the cache, decides in which order sums are taken.

Written by: go test ./hexagon -run ExactWidthsOnTheVendors -update -timeout 60m

| recipe | rows | valid | logits equal | choices that differ |
| --- | --- | --- | --- | --- |
`
