package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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
			require.NotEqual(t, "none", gates[r.Name].String(), r.Name)
		}
	}
}

func TestAGateLooksAtChoicesAndPerplexity(t *testing.T) {
	g := gate{Top1: 0.98, Ratio: 1.01}
	result := func(top1 float64, tied int, ratio float64) *checkResult {
		r := &checkResult{Positions: 1000, Top1: top1, Tied: tied}
		r.Perplexity.Float, r.Perplexity.Recipe, r.Perplexity.Ratio = 10, 10*ratio, ratio
		return r
	}
	require.Empty(t, g.failure(result(0.98, 0, 1.01)))
	require.Empty(t, g.failure(result(0.975, 5, 0.9)))
	require.Equal(t, "the same token at 97.90 % of 1000 positions", g.failure(result(0.979, 0, 1)))
	require.Equal(t, "perplexity 10.1100, +1.10 % against float", g.failure(result(1, 0, 1.011)))
	require.Contains(t, g.failure(result(0.5, 0, 2)), "; ")
	require.Empty(t, gate{}.failure(result(0, 0, 99)))
}

func TestARecipeBelowItsGateIsRefusedWithTheFigures(t *testing.T) {
	s := settings{cache: filepath.Join(t.TempDir(), "images")}
	r := checkResult{Digest: "d", Recipe: "w8a16", Positions: 1000, Top1: 0.9, Device: "emulator"}
	r.Perplexity.Recipe, r.Perplexity.Ratio = 12, 1.2
	require.NoError(t, s.passes("d", "w8a16"), "nothing is known")
	require.NoError(t, storeJSON(t.Context(), s.checkPath("d", "w8a16"), r))
	err := s.passes("d", "w8a16")
	require.ErrorIs(t, err, errGate)
	require.ErrorContains(t, err, "90.00 % of 1000 positions; perplexity 12.0000, +20.00 %")
	require.ErrorContains(t, err, gateVariable+"=off")
	require.NoError(t, s.passes("d", "w4a16"))
	require.NoError(t, s.passes("e", "w8a16"))
	s.gateOff = true
	require.NoError(t, s.passes("d", "w8a16"))
}

func TestAModelIsCalibratedOnceAndCheckedOnItsText(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("SDNPU_CACHE", filepath.Join(folder, "images"))
	text := filepath.Join(folder, "text")
	require.NoError(t, os.WriteFile(text, []byte("One day, Tom went to the park.\n=====\nLily saw a big dog."), 0o600))
	path := filepath.Join("..", "..", "integration_test", "models", "stories260K-f16.gguf")
	var calibrated struct {
		Tokens, Tensors int
		Path            string
	}
	out, err := sdnpu(t, "calibrate", path, "--text", text, "--json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), &calibrated))
	require.Positive(t, calibrated.Tokens)
	require.Equal(t, 5*(4+7+2)+2, calibrated.Tensors, "inputs and results of five layers' projections, keys and values, and those of the head")
	written, err := os.Stat(calibrated.Path)
	require.NoError(t, err)

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
	require.Equal(t, calibrated.Tokens-2, r.Positions, "what follows the last token of a passage is not known")
	require.Greater(t, r.Top1, 0.8)
	again, err := os.Stat(calibrated.Path)
	require.NoError(t, err)
	require.Equal(t, written.ModTime(), again.ModTime(), "ranges that are there are used")

	digest := r.Digest
	require.FileExists(t, settings{cache: filepath.Join(folder, "images")}.checkPath(digest, "w8a16"))
	require.NoError(t, os.WriteFile(calibrated.Path, []byte("{}"), 0o600))
	_, err = readRanges(calibrated.Path, digest)
	require.ErrorIs(t, err, errRangesFile)
}
