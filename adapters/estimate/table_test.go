package estimate

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
	"github.com/sdnpu/sdnpu/integration_test/randommodel"
)

var update = flag.Bool("update", false, "simulate everything and write testdata/estimates.md (minutes)")

const tableFile = "testdata/estimates.md"

// cases are what the table holds: a shape on chips in recipes.
var cases = []struct {
	shape   string
	chips   []string
	recipes []string
}{
	{"qwen2.5-0.5b", []string{"sm8650"}, []string{"f16", "w8a16", "w8"}},
	{"qwen2.5-0.5b", []string{"sm8550", "sm8750"}, []string{"w8a16"}},
	{"qwen2.5-1.5b", []string{"sm8650", "sm8550", "sm8750"}, []string{"w8a16"}},
}

var tableRows = []int{1, 8, 32, 128, 256}

// oneLayer is a random model of a shape with one layer; layers are told apart by
// nothing that the compiler sees.
func oneLayer(t *testing.T, s randommodel.Shape) *model.Model {
	t.Helper()
	s.Layers = 1
	path := filepath.Join(t.TempDir(), "layer.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(out)
	require.NoError(t, randommodel.Write(w, s, quant.Q8_0, nil, 1))
	require.NoError(t, w.Flush())
	require.NoError(t, out.Close())
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	return m
}

// ranges calibrates a model of the shape with few words: the vocabulary decides
// no range.
func ranges(t *testing.T, s randommodel.Shape) *model.Ranges {
	t.Helper()
	s.Vocabulary = 512
	text := make([]int32, 64)
	for i := range text {
		text[i] = int32(rand.IntN(s.Vocabulary))
	}
	d := cpu.New(cpu.Options{})
	defer d.Close()
	exact, err := model.FindRecipe("f32")
	require.NoError(t, err)
	r, err := chain.Calibrate(t.Context(), d, oneLayer(t, s), [][]int32{text}, chain.Options{Recipe: exact, Context: len(text)}, nil)
	require.NoError(t, err)
	return r
}

func simulator(t *testing.T, chip string) (*hexagon.Device, hexagon.Chip) {
	t.Helper()
	c, err := hexagon.FindChip(chip)
	require.NoError(t, err)
	d, err := hexagon.Open(hexagon.Options{Library: librarytest.Vendor(t), SoC: c.SoC})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, c
}

func TestTheTableOfEstimates(t *testing.T) {
	if !*update {
		t.Skip("minutes: -update writes " + tableFile)
	}
	var b strings.Builder
	d, _ := simulator(t, "sm8650")
	fmt.Fprintf(&b, `# What the vendor's compiler predicts

Simulated by the compiler of libQnnHtp for x86-64, build %s, at the clock of corner 7 and with 90 %%
of the memory's peak: good for ratios, too fast as times of a phone. Random weights in the shapes of real
models, one layer, 1024 past tokens; decode and prefill are of the whole model, with its head for decode.
Goals: 32 rows at most 1.2 times one row, their reads at most 1.15 times weights and cache, no spill.

Written by: go test ./adapters/estimate -run TableOfEstimates -update -timeout 2h

`, d.Capabilities().BuildID)
	writeForms(t, &b, d)
	fmt.Fprint(&b, "| model | chip | recipe | µs a layer at")
	for _, rows := range tableRows {
		fmt.Fprintf(&b, " %d /", rows)
	}
	fmt.Fprint(&b, " rows | MB spilled at these | head, µs at 1 | 32 : 1 rows | reads : weights and cache, 32 rows | decode, tokens/s | prefill, tokens/s at rows |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range cases {
		shape := randommodel.Shapes[c.shape]
		m, found := oneLayer(t, shape), ranges(t, shape)
		for _, chip := range c.chips {
			d, which := simulator(t, chip)
			for _, name := range c.recipes {
				recipe, err := model.FindRecipe(name)
				require.NoError(t, err)
				if recipe.NeedsRanges() {
					recipe.Ranges = found
				}
				r, err := Run(t.Context(), d, m, Options{Recipe: recipe, Rows: tableRows, HeadRows: []int{1}, Context: 1024})
				require.NoError(t, err)
				r.Layers = shape.Layers
				writeRow(&b, c.shape, which, name, r)
				t.Logf("%s %s %s: %+v", c.shape, chip, name, r.Rates())
				require.NoError(t, os.WriteFile(tableFile, []byte(b.String()), 0o644)) // after each, since all take long
			}
		}
	}
}

func writeRow(b *strings.Builder, shape string, chip hexagon.Chip, recipe string, r *Result) {
	var us, spill []string
	for _, g := range r.Graphs {
		if g.Part == "layer" {
			us = append(us, fmt.Sprintf("%.0f", g.Us))
			spill = append(spill, fmt.Sprintf("%.1f", float64(g.SpillBytes)/1e6))
		}
	}
	head, _ := r.Find("head", 1)
	s := r.Rates()
	fmt.Fprintf(b, "| %s | %s (%d) | %s | %s | %s | %.0f | %.2f | %.2f | %.1f | %.0f at %d |\n", shape, chip.Name, chip.SoC, recipe,
		strings.Join(us, " / "), strings.Join(spill, " / "), head.Us, s.Flat, s.Reads, s.Decode, s.Prefill, s.Chunk)
}

// writeForms compares two ways to write a projection.
func writeForms(t *testing.T, b *strings.Builder, d *hexagon.Device) {
	t.Helper()
	fmt.Fprint(b, "A projection 896 → 4864 in f16 on SM8650, µs at 1 / 8 / 32 / 128 rows:\n\n| form | µs |\n| --- | --- |\n")
	for _, form := range []string{"FullyConnected", "MatMul"} {
		var us []string
		for _, rows := range []int{1, 8, 32, 128} {
			e, err := d.Estimate(t.Context(), projection(t, form, rows))
			require.NoError(t, err)
			us = append(us, fmt.Sprintf("%.0f", e.Cycles/e.MHz))
		}
		fmt.Fprintf(b, "| %s | %s |\n", form, strings.Join(us, " / "))
	}
	fmt.Fprintln(b)
}

// projection is a layer of random weights.
func projection(t *testing.T, form string, rows int) *backend.Graph {
	t.Helper()
	const in, out = 896, 4864
	rng := rand.New(rand.NewPCG(1, 2))
	weights := make([]byte, 2*in*out)
	for i := range weights {
		weights[i] = byte(rng.Uint32()) & 0x3b
	}
	b := backend.NewBuilder(strings.ToLower(form))
	x := b.Input("x", backend.Float16, rows, in)
	w := b.Constant("w", backend.Float16, backend.Literal(weights), out, in)
	if form == "MatMul" {
		b.Output(b.MatMul("y", x, w, true))
	} else {
		b.Output(b.FullyConnected("y", x, w, -1))
	}
	g, err := b.Graph()
	require.NoError(t, err)
	return g
}

func TestMain(m *testing.M) { os.Exit(librarytest.Main(m)) }
