package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestEveryRecipeOfIntegersHasAGateAndCanBeSelected(t *testing.T) {
	k, err := config.Find("recipe")
	require.NoError(t, err)
	for _, r := range model.Recipes {
		require.NoError(t, k.Check(r.Name))
		if r.Name != "f32" {
			require.NotEqual(t, "none", gateOf(r.Name).String(), r.Name)
			small := r.Name + model.SmallCache
			require.NoError(t, k.Check(small))
			require.Equal(t, gateOf(r.Name), gateOf(small))
			_, err := model.FindRecipe(small)
			require.NoError(t, err)
		}
	}
}

func checked(positions int, top1, ratio, uncertainty float64) *checkResult {
	r := &checkResult{Positions: positions, Top1: top1}
	r.Perplexity.Float, r.Perplexity.Recipe, r.Perplexity.Ratio = 10, number(10*ratio), number(ratio)
	r.Perplexity.Uncertainty = uncertainty
	return r
}

func TestAGateLooksAtChoicesAndPerplexity(t *testing.T) {
	g := gate{Top1: 0.98, Ratio: 1.01}
	const many = 1e7 // positions leave no doubt
	require.Empty(t, g.failure(checked(many, 0.98, 1.01, 0)))
	require.Empty(t, g.failure(checked(many, 0.99, 0.9, 0)))
	require.Equal(t, "the same token at 97.90 % of 10000000 positions", g.failure(checked(many, 0.979, 1, 0)))
	require.Equal(t, "perplexity 10.1100, +1.10 % against float", g.failure(checked(many, 1, 1.011, 0)))
	require.Contains(t, g.failure(checked(many, 0.5, 2, 0)), "; ")
	require.Empty(t, gate{}.failure(checked(many, 0, 99, 0)))
}

// A recipe whose logits are not numbers must not escape its gate because the
// result cannot be kept.
func TestACheckWithoutNumbersIsKeptAndFails(t *testing.T) {
	for _, none := range []float64{math.NaN(), math.Inf(1)} {
		r := checked(1000, 0, none, 0)
		r.Divergence = number(none)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var kept checkResult
		require.NoError(t, json.Unmarshal(data, &kept))
		require.Equal(t, 1000, kept.Positions)
		require.True(t, math.IsNaN(float64(kept.Perplexity.Ratio)) && math.IsNaN(float64(kept.Divergence)))
		require.EqualValues(t, 10, kept.Perplexity.Float)
		require.Contains(t, gate{Ratio: 1.01}.failure(&kept), "perplexity NaN")
	}
}

// TestAGateRefusesAGoodRecipeOnceInTwentyTimes draws checks of recipes that are
// just as good as the gate asks, and of some that are worse.
func TestAGateRefusesAGoodRecipeOnceInTwentyTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const trials = 4000
	refused := func(g gate, n int, share, ratio float64) float64 {
		count := 0
		for range trials {
			same, sum, squares := 0, 0.0, 0.0
			for range n {
				if rng.Float64() < share {
					same++
				}
				d := math.Log(ratio) + 0.1*rng.NormFloat64()
				sum, squares = sum+d, squares+d*d
			}
			mean := sum / float64(n)
			deviation := math.Sqrt((squares/float64(n) - mean*mean) / float64(n-1))
			if g.failure(checked(n, float64(same)/float64(n), math.Exp(mean), deviation)) != "" {
				count++
			}
		}
		return float64(count) / trials
	}
	for _, n := range []int{leastPositions, 1000} {
		for _, share := range []float64{0.997, 0.98} {
			require.InDelta(t, 0.05, refused(gate{Top1: share}, n, share, 1), 0.03, "%d positions, %v", n, share)
			require.Greater(t, refused(gate{Top1: share}, n, share-0.03, 1), 0.95, "%d positions, %v", n, share)
		}
		require.InDelta(t, 0.05, refused(gate{Ratio: 1.01}, n, 1, 1.01), 0.015, n)
		require.Greater(t, refused(gate{Ratio: 1.01}, n, 1, 1.03), 0.95, n)
	}
}

func TestAVerdictSaysWhatPositionsCanDecide(t *testing.T) {
	g := gate{Top1: 0.997}
	require.Equal(t, "passed", g.verdict(checked(1000, 0.997, 1, 0)))
	require.Equal(t, "passed within the uncertainty of so many positions: the same token at 99.67 % of 900 positions", g.verdict(checked(900, 897.0/900, 1, 0)))
	require.Equal(t, "failed: the same token at 97.00 % of 900 positions", g.verdict(checked(900, 0.97, 1, 0)))
	require.Contains(t, g.verdict(checked(leastPositions-1, 1, 1, 0)), "open")
	require.NotContains(t, g.verdict(checked(leastPositions, 1, 1, 0)), "open")
}

func TestARecipeBelowItsGateIsRefusedWithTheFigures(t *testing.T) {
	s := settings{cache: filepath.Join(t.TempDir(), "images")}
	recipe := calibratedRecipe(t, "w8a16", 1)
	r := checkResult{Digest: "d", Recipe: "w8a16", Ranges: rangesDigest(recipe.Ranges), Positions: 1000, Top1: 0.9, Device: "emulator"}
	r.Perplexity.Recipe, r.Perplexity.Ratio = 12, 1.2
	require.NoError(t, s.passes("d", recipe), "nothing is known")
	require.NoError(t, storeJSON(t.Context(), s.checkPath("d", "w8a16"), r))
	err := s.passes("d", recipe)
	require.ErrorIs(t, err, errGate)
	require.ErrorContains(t, err, "90.00 % of 1000 positions; perplexity 12.0000, +20.00 %")
	require.ErrorContains(t, err, gateVariable+"=off")
	require.ErrorContains(t, err, "sdnpu calibrate")
	require.NoError(t, s.passes("d", calibratedRecipe(t, "w8a16", 1.5)), "other ranges were not checked")
	require.NoError(t, s.passes("d", calibratedRecipe(t, "w8a8", 1)))
	require.NoError(t, s.passes("e", recipe))
	s.gateOff = true
	require.NoError(t, s.passes("d", recipe))
}

// calibratedRecipe is a recipe with ranges up to some number.
func calibratedRecipe(t *testing.T, name string, high float32) model.Recipe {
	t.Helper()
	r, err := model.FindRecipe(name)
	require.NoError(t, err)
	r.Ranges = &model.Ranges{Tensors: map[string]model.Range{"x": {Low: -1, High: high}}}
	return r
}

func TestRangesHaveADigestOfAllTheirNumbers(t *testing.T) {
	seen := func(low, high float32) model.Range { return model.Range{Low: low, High: high} }
	of := func(tensors map[string]model.Range) string { return rangesDigest(&model.Ranges{Tensors: tensors}) }
	require.Empty(t, rangesDigest(nil))
	all := of(map[string]model.Range{"a": seen(-1, 1), "b": seen(-2, 2)})
	require.Equal(t, all, of(map[string]model.Range{"b": seen(-2, 2), "a": seen(-1, 1)}))
	for _, other := range []map[string]model.Range{
		{},
		{"a": seen(-1, 1)},
		{"a": seen(-1, 1), "c": seen(-2, 2)},
		{"a": seen(-2, 2), "b": seen(-1, 1)},
		{"a": seen(-1, 1), "b": seen(-2, 2.0000002)},
		{"a": seen(-1, 1), "b": seen(-2.5, 2)},
	} {
		require.NotEqual(t, all, of(other), other)
	}
}

func TestTooLittleTextDoesNotReplaceRanges(t *testing.T) {
	t.Setenv("SDNPU_CACHE", filepath.Join(t.TempDir(), "images"))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	out, err := sdnpu(t, "calibrate", story, "--json")
	require.NoError(t, err)
	var calibrated struct{ Path string }
	require.NoError(t, json.Unmarshal([]byte(out), &calibrated))
	before, err := os.ReadFile(calibrated.Path)
	require.NoError(t, err)
	_, err = sdnpu(t, "calibrate", story, "--text", empty)
	require.ErrorIs(t, err, errTooLittleText)
	require.ErrorContains(t, err, "empty has 1 tokens, at least 128 are wanted")
	after, err := os.ReadFile(calibrated.Path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// TestACheckHoldsForTheRangesThatItMeasured goes a user's way: a recipe is used
// unchecked, found bad, calibrated again and used again.
func TestACheckHoldsForTheRangesThatItMeasured(t *testing.T) {
	t.Setenv("SDNPU_CACHE", filepath.Join(t.TempDir(), "images"))
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("Tom had a red ball. ", 20)), 0o600))
	ranges := func(more ...string) {
		t.Helper()
		_, err := sdnpu(t, append([]string{"calibrate", story}, more...)...)
		require.NoError(t, err)
	}
	run := func() (log string, err error) {
		t.Helper()
		var b bytes.Buffer
		root := newCommand()
		root.SetArgs([]string{"run", "--model", story, "--library", "float", "--recipe", "w8a16", "--prompt", "a", "-n", "1"})
		root.SetOut(io.Discard)
		root.SetErr(&b)
		err = root.ExecuteContext(t.Context())
		return b.String(), err
	}
	const unchecked = "was not checked on this model with these ranges"
	ranges("--text", text)
	log, err := run()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(log, unchecked), log)
	require.Contains(t, log, "sdnpu check MODEL.gguf --recipe w8a16")

	out, err := sdnpu(t, "check", story, "--recipe", "w8a16", "--library", "float")
	require.ErrorIs(t, err, errGate, "a check below the gate fails")
	require.ErrorContains(t, err, gateVariable+"=off", "and says what to do")
	require.ErrorContains(t, err, "sdnpu calibrate")
	share := regexp.MustCompile(`(?m)^same token +([0-9.]+ %)`).FindStringSubmatch(out)
	require.NotNil(t, share, out)
	require.Contains(t, err.Error(), "the same token at "+share[1], "one figure for one thing")
	_, err = run()
	require.ErrorIs(t, err, errGate)
	t.Setenv(gateVariable, "off")
	_, err = sdnpu(t, "check", story, "--recipe", "w8a16", "--library", "float", "--text", text)
	require.NoError(t, err)
	log, err = run()
	require.NoError(t, err)
	require.NotContains(t, log, unchecked)
	t.Setenv(gateVariable, "")
	_, err = sdnpu(t, "check", story, "--recipe", "w8a16", "--library", "float", "--text", text)
	require.ErrorIs(t, err, errFewPositions)
	_, err = run()
	require.ErrorIs(t, err, errGate, "a text too short to decide leaves the last check")

	ranges()
	log, err = run()
	require.NoError(t, err)
	require.Contains(t, log, unchecked)
}

func TestAModelIsCalibratedOnceAndCheckedOnItsText(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("SDNPU_CACHE", filepath.Join(folder, "images"))
	text := filepath.Join(folder, "text")
	const pairs = 4 // of passages
	passages := strings.Repeat("One day, Tom went to the park. ", 8) + passageEnd + strings.Repeat("Lily saw a big dog. ", 8) + passageEnd
	passages = strings.TrimSuffix(strings.Repeat(passages, pairs), passageEnd)
	require.NoError(t, os.WriteFile(text, []byte(passages), 0o600))
	path := filepath.Join("..", "..", "integration_test", "models", "stories260K-f16.gguf")
	var calibrated struct {
		Tokens, Tensors int
		Path            string
	}
	out, err := sdnpu(t, "calibrate", path, "--text", text, "--json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), &calibrated))
	require.Positive(t, calibrated.Tokens)
	require.Equal(t, 5*(4+7+2), calibrated.Tensors, "inputs and results of five layers' projections, keys and values")
	written, err := os.Stat(calibrated.Path)
	require.NoError(t, err)

	t.Setenv(gateVariable, "off") // so few places may fail
	out, err = sdnpu(t, "check", path, "--recipe", "w8a16", "--library", "float", "--text", text, "--json")
	require.NoError(t, err)
	var r checkResult
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Len(t, r.Layers, 5)
	for _, l := range r.Layers {
		require.NotNil(t, l.SQNR)
		require.Greater(t, *l.SQNR, 25.0)
		require.Less(t, *l.SQNR, 60.0, "eight bits are no better than that")
	}
	require.Equal(t, calibrated.Tokens-2*pairs, r.Positions, "what follows the last token of a passage is not known")
	require.Greater(t, r.Top1, 0.8)
	require.Positive(t, r.CPU)
	again, err := os.Stat(calibrated.Path)
	require.NoError(t, err)
	require.Equal(t, written.ModTime(), again.ModTime(), "ranges that are there are used")

	digest := r.Digest
	require.FileExists(t, settings{cache: filepath.Join(folder, "images")}.checkPath(digest, "w8a16"))
	require.NoError(t, os.WriteFile(calibrated.Path, []byte("{}"), 0o600))
	_, err = readRanges(calibrated.Path, digest)
	require.ErrorIs(t, err, errRangesFile)
}

// TestSizesAreThoseOfTheRecipeAndOfTheDevice: weights of 4 bits are counted as such,
// and where the emulator keeps them as floats, that is said.
func TestSizesAreThoseOfTheRecipeAndOfTheDevice(t *testing.T) {
	useCache(t)
	t.Setenv(gateVariable, "off")
	text := textFile(t, "text", strings.Repeat("One day, Tom went to the park. ", 4))
	check := func(recipe string, more ...string) string {
		t.Helper()
		out, err := sdnpu(t, append([]string{
			"check", "../../integration_test/models/stories260K-ffn192-q4_0.gguf", "--recipe", recipe, "--library", "emulator", "--text", text,
		}, more...)...)
		require.NoError(t, err)
		return out
	}
	of := func(recipe string) (r checkResult) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(check(recipe, "--json")), &r))
		return r
	}
	plain, eight, four := of("f16"), of("w8"), of("w4a16")
	require.False(t, plain.AsFloats)
	require.True(t, four.AsFloats)
	require.InEpsilon(t, plain.Weights, 2*eight.Weights, 0.01)
	require.InEpsilon(t, plain.Weights, 4*four.Weights, 0.2, "the head has 8 bits")
	require.Greater(t, four.Image, 3*four.Weights, "what the emulator keeps")
	require.Regexp(t, `(?m)^weights +155 KiB packed, without their scales\nsize +images of one width on this device [\d.]+ [KM]iB, in memory [\d.]+ [KM]iB\n +the emulator keeps`, check("w4a16"))
	require.NotContains(t, check("f16"), "the emulator keeps")
}
