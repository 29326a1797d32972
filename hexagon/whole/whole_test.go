package whole

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

var update = flag.Bool("update", false, "write testdata/models.md")

func TestMain(m *testing.M) { os.Exit(librarytest.Main(m)) }

// Bounds of f16 against the float device.
const (
	// tolerance is the largest relative error of what leaves a block and of
	// logits.
	tolerance = 0.02
	// tie is how far apart the float device's logits of two tokens may be for
	// another choice to be excused.
	tie = 0.1
)

// place is a library and a chip.
type place struct {
	name string
	path func(t testing.TB) string
	soc  uint32
}

var places = []place{
	{"emulator", librarytest.Emulator, 57},
	{"vendor", librarytest.VendorAtLength, 57},
	{"vendor", librarytest.VendorAtLength, 43},
	{"vendor", librarytest.VendorAtLength, 69},
}

func (p place) String() string { return fmt.Sprintf("%s, SoC %d", p.name, p.soc) }

func (p place) open(t *testing.T) backend.Device {
	t.Helper()
	d, err := hexagon.Open(hexagon.Options{Library: p.path(t), Name: p.name, SoC: p.soc})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// subjects are the models, with the number of places, of the first ones, that
// the short version visits.
var subjects = []struct {
	subject
	places int
}{
	{subject{name: "stories260K, 5 blocks", file: story("f16"), prompt: storyText("f16"), steps: 8}, 2},
	{subject{name: "stories260K, 2 blocks", file: story("f16"), blocks: 2, prompt: storyText("f16"), steps: 32}, 4},
	{subject{name: "stories260K-qwen2, 2 blocks", file: story("qwen2-f16"), blocks: 2, prompt: storyText("qwen2-f16"), steps: 32}, 2},
	{subject{name: "SmolLM2-135M, 4 layers", file: smollmFile, layers: 4, prompt: smollmText, steps: 2}, 2},
	{subject{name: "SmolLM2-135M, 30 layers", file: smollmFile, prompt: smollmText, steps: 16}, 0},
}

// TestWholeModelsEverywhere compares each model on each library with the float
// device, layer by layer and choice by choice, and again from saved images.
func TestWholeModelsEverywhere(t *testing.T) {
	var rows []row
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			visited := places
			if !librarytest.Full() {
				visited = places[:s.places]
			}
			if len(visited) == 0 {
				t.Skip("takes minutes: SDNPU_FULL=1 runs it")
			}
			float, chosen := s.measure(t, cpu.New(cpu.Options{}), "f32", nil, nil)
			for _, p := range visited {
				t.Run(p.String(), func(t *testing.T) {
					if testing.Short() && p.name != "emulator" {
						t.Skip("takes a minute on the vendor's library")
					}
					rows = append(rows, s.compare(t, p, float, chosen))
					if *update { // after each, since the last ones take long
						writeTable(t, rows)
					}
				})
			}
		})
	}
}

// compare runs a subject twice in a place: freshly compiled and from the cache.
func (s subject) compare(t *testing.T, p place, float run, chosen []int32) row {
	t.Helper()
	cache, err := imagecache.Open(t.TempDir(), imagecache.Options{})
	require.NoError(t, err)
	began := time.Now()
	d := p.open(t)
	fresh, _ := s.measure(t, d, "f16", cache, chosen)
	v := judge(fresh, float)

	short := s
	short.steps = 1
	again, _ := short.measure(t, d, "f16", cache, chosen)
	require.Zero(t, again.finalize, "the second time everything comes from the cache")
	require.Equal(t, fresh.hidden, again.hidden, "reloaded images give other bits")
	require.Equal(t, fresh.logits[:len(again.logits)], again.logits, "reloaded images give other bits")
	require.Equal(t, fresh.tree, again.tree, "reloaded images give other bits")

	for i, e := range v.layers {
		require.Less(t, e, tolerance, "block %d", i)
	}
	require.Less(t, v.logits, tolerance, "logits")
	require.Less(t, v.tree, tolerance, "logits of the tree")
	require.Less(t, v.gap, tie, "the float device is sure of what differs first at %d", v.first)
	t.Logf("took %v: %d of %d choices equal, of the tree %d of %d; errors of layers %.2g … %.2g, of logits %.2g, of the tree %.2g",
		time.Since(began).Round(time.Millisecond), v.same, v.all, v.treeSame, treeRows, v.layers[0], v.layers[len(v.layers)-1], v.logits, v.tree)
	fresh.reload = again.reload
	return row{subject: s, place: p, version: d.Capabilities().BuildID, run: fresh, verdict: v}
}
