package model_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
)

// recordedText is the output of Hugging Face transformers for a text and one of
// the models in testdata; see reference.py there.
type recordedText struct {
	Context int     `json:"context"` // Context is the context length in tokens for which the rotary angles are computed
	Tokens  []int32 `json:"tokens"`
	// Top holds the most likely next tokens of each position with their
	// log-probabilities, the best first.
	Top [][][2]float64 `json:"top"`
}

// recordings returns the names of the models in testdata.
func recordings(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.gguf")
	require.NoError(t, err)
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".gguf"))
	}
	require.GreaterOrEqual(t, len(names), len(modeltest.Families))
	return names
}

// agreement counts the tokens at which logits and recording have the same most likely next
// token, and returns the largest error of a recorded log-probability.
func agreement(text recordedText, logits [][]float32) (equal int, worst float64) {
	for i, top := range text.Top {
		var sum float64
		for _, v := range logits[i] {
			sum += math.Exp(float64(v))
		}
		if argmax(logits[i]) == int32(top[0][0]) {
			equal++
		}
		for _, choice := range top {
			worst = max(worst, math.Abs(float64(logits[i][int(choice[0])])-math.Log(sum)-choice[1]))
		}
	}
	return equal, worst
}

func TestLogitsAgreeWithTransformers(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range recordings(t) {
		m, err := model.Load(openFile(t, filepath.Join("testdata", name+".gguf")))
		require.NoError(t, err)
		seen[m.Config().Architecture] = true
		var texts []recordedText
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &texts))
		for recipe, tolerance := range map[string]float64{"f32": 1e-4, "f16": 0.15} {
			t.Run(name+" in "+recipe, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				positions, equal, worst := 0, 0, 0.0
				for _, text := range texts {
					d := newDriver(t, m, recipe, randomEnds(rng, m.Config().Layers), 1+rng.IntN(40), len(text.Tokens))
					d.longest = text.Context
					e, w := agreement(text, d.feed(text.Tokens))
					positions, equal, worst = positions+len(text.Tokens), equal+e, max(worst, w)
				}
				t.Logf("%d of %d first choices equal, log-probabilities within %.2g", equal, positions, worst)
				require.Less(t, worst, tolerance)
				if recipe == "f32" {
					require.Equal(t, positions, equal)
				}
			})
		}
	}
	for _, arch := range modeltest.Families {
		require.True(t, seen[arch], "nothing is recorded for %s", arch)
	}
}
