package whole

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

var (
	update  = flag.Bool("update", false, "write what is measured into testdata/models.json and models.md")
	missing = flag.Bool("missing", false, "leave out what testdata/models.json has of the same builds")
)

func TestMain(m *testing.M) { os.Exit(librarytest.Main(m)) }

// Bounds of a library against the float device that computes the same recipe.
const (
	// tolerance is the relative error that arithmetic in float16 may add to what
	// leaves a block and to logits, and growth how many times the recipe's own
	// error it may have: integers that are rounded the other way err as much.
	tolerance, growth = 0.02, 1.5
	// tie is how far apart the float device's logits of two tokens may be for
	// another choice to be excused by arithmetic.
	tie = 0.1
)

// place is a library and a chip.
type place struct {
	name string
	path func(t testing.TB) string
	soc  uint32
	// drift is how far two runs may be apart, relatively: not at all but where
	// the library sums in no fixed order.
	drift float64
}

var (
	emulated = place{"emulator", librarytest.Emulator, 57, 0}
	sm8650   = place{"vendor", librarytest.VendorAtLength, 57, 0}
	sm8550   = place{"vendor", librarytest.VendorAtLength, 43, 0}
	sm8750   = place{"vendor", librarytest.VendorAtLength, 69, 0}
	plain    = place{"vendor's libQnnCpu", librarytest.VendorCPUAtLength, 0, 1e-5}
)

func (p place) String() string { return fmt.Sprintf("%s, SoC %d", p.name, p.soc) }

func (p place) open(t *testing.T) backend.Device {
	t.Helper()
	d, err := hexagon.Open(hexagon.Options{Library: p.path(t), Name: p.name, SoC: p.soc})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// visit is a library with the recipes that are run on it, always and at length,
// and the tokens behind the prompt.
type visit struct {
	place
	recipes, atLength string
	steps             int
}

// Recipes: those of integers, those of them that run always on each chip, those
// of the NPU, and all.
const (
	usual    = "w8 w8a16 w8a8 w4a16"
	integers = usual + " w4a16-lpbq"
	phones   = "f16 " + integers
	all      = phones + " f32"
)

// subjects are the models, with what is run of them.
var subjects = []struct {
	subject
	visits []visit
}{
	{story("f16", 0, "stories260K, 5 blocks"), []visit{
		{emulated, all, "", 8}, {sm8650, "f16", integers, 8}, {plain, "f32", "", 8},
	}},
	{story("f16", 2, "stories260K, 2 blocks"), []visit{
		{emulated, all, "", 32}, {sm8650, phones, "", 32}, {sm8550, "f16 " + usual, "w4a16-lpbq", 0}, {sm8750, "f16 " + usual, "w4a16-lpbq", 0}, {plain, "f32", "", 32},
	}},
	{story("qwen2-f16", 2, "stories260K-qwen2, 2 blocks"), []visit{
		{emulated, all, "", 32}, {sm8650, "f16 w8a16", "w8 w8a8 w4a16 w4a16-lpbq", 32}, {sm8550, "f16", integers, 0}, {sm8750, "f16", integers, 0}, {plain, "f32", "", 32},
	}},
	{sized("random, a layer of Qwen2.5-0.5B", 896, 4864, 14, 2), []visit{
		{emulated, "w4a16 w4a16-lpbq", "f16 w8 w8a16 w8a8", 1}, {sm8650, "w4a16", "f16 w8 w8a16 w8a8 w4a16-lpbq", 1},
	}},
	{smollm(4, "SmolLM2-135M, 4 layers"), []visit{
		{emulated, "f16", integers + " w4a16-lpbq f32", 2}, {sm8650, "f16", integers + " w4a16-lpbq", 2}, {sm8550, "", "f16", 0}, {sm8750, "", "f16", 0}, {plain, "f32", "", 2},
	}},
	{smollm(0, "SmolLM2-135M, 30 layers"), []visit{
		{emulated, "", all, 16}, {sm8650, "", "f16 w8a16 w4a16", 8}, {plain, "", "f32", 16},
	}},
}

// apart is the relative error of one run against another.
func apart(a, b [][]float32) float64 { return relative(slices.Concat(a...), slices.Concat(b...)) }

// chosenRecipes are those that this run of the tests asks for.
func (v visit) chosenRecipes() []string {
	if librarytest.Full() {
		return strings.Fields(v.recipes + " " + v.atLength)
	}
	return strings.Fields(v.recipes)
}

// TestWholeModelsEverywhere compares each model in each recipe on each library
// with the float device, layer by layer and choice by choice, and again from
// saved images.
func TestWholeModelsEverywhere(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			steps := 0
			for _, v := range s.visits {
				if len(v.chosenRecipes()) > 0 {
					steps = max(steps, v.steps)
				}
			}
			if steps == 0 {
				t.Skip("takes minutes: SDNPU_FULL=1 runs it")
			}
			c := &comparison{lab: s.open(t), exact: map[string]run{}}
			c.float, c.chosen = c.measure(t, cpu.New(cpu.Options{}), "f32", nil, course{tree: true, steps: steps})
			c.calibrate(t, c.chosen)
			for _, v := range s.visits {
				for _, recipe := range v.chosenRecipes() {
					t.Run(v.String()+"/"+recipe, func(t *testing.T) {
						if testing.Short() && v.name != "emulator" {
							t.Skip("takes a minute on the vendor's library")
						}
						c.compare(t, v, recipe)
					})
				}
			}
		})
	}
}

// comparison is a subject with what the float device makes of it: in f32, and in
// the recipe under test.
type comparison struct {
	*lab
	float  run
	chosen []int32
	exact  map[string]run
}

// ideal is what the recipe costs where the arithmetic is exact.
func (c *comparison) ideal(t *testing.T, recipe string) verdict {
	t.Helper()
	if _, known := c.exact[recipe]; !known {
		c.exact[recipe], _ = c.measure(t, cpu.New(cpu.Options{}), recipe, nil, course{tree: true, steps: len(c.chosen) - 1, forced: c.chosen})
	}
	return judge(c.exact[recipe], c.float)
}

// compare runs a subject twice in a place: freshly compiled and from the cache.
func (c *comparison) compare(t *testing.T, p visit, recipe string) {
	t.Helper()
	cache, err := imagecache.Open(t.TempDir(), imagecache.Options{})
	require.NoError(t, err)
	began := time.Now()
	d := p.open(t)
	if *missing && measured(t, c.name, recipe, p.place, d.Capabilities().BuildID) {
		t.Skip("is in testdata/models.json")
	}
	fresh, _ := c.measure(t, d, recipe, cache, course{tree: true, steps: p.steps, forced: c.chosen})
	v := judge(fresh, c.float)

	again, _ := c.measure(t, d, recipe, cache, course{steps: min(p.steps, 1), forced: c.chosen}) // which runs each graph
	require.Zero(t, again.finalize, "the second time everything comes from the cache")
	drift := max(apart(fresh.hidden, again.hidden), apart(fresh.logits[:len(again.logits)], again.logits))
	require.LessOrEqual(t, drift, p.drift, "reloaded images give other bits")
	fresh.reload = again.reload

	ideal := c.ideal(t, recipe)
	t.Logf("took %v, reloaded %.2g apart: %d of %d choices equal, of the tree %d of %d; errors of layers %.2g … %.2g, of logits %.2g, of the tree %.2g; exactly computed %.2g … %.2g, %.2g, %.2g",
		time.Since(began).Round(time.Millisecond), drift, v.same, v.all, v.treeSame, treeRows+1, v.layers[0], v.layers[len(v.layers)-1], v.logits, v.tree,
		ideal.layers[0], ideal.layers[len(v.layers)-1], ideal.logits, ideal.tree)
	if *update {
		keep(t, newRow(c.name, recipe, p.place, d.Capabilities().BuildID, fresh, v, ideal))
	}
	for i, e := range v.layers {
		require.Less(t, e, tolerance+growth*ideal.layers[i], "block %d", i)
	}
	require.Less(t, v.logits, tolerance+growth*ideal.logits, "logits")
	require.Less(t, v.tree, tolerance+growth*ideal.tree, "logits of the tree")
	require.Less(t, v.gap, tie+2*ideal.off, "the float device is sure of what differs first at %d", v.first)
}
