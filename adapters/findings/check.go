package findings

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Check is the quality of a recipe on a model, compared with float32.
type Check struct {
	Model  string `json:"model"`
	Digest string `json:"digest"`
	Recipe string `json:"recipe"`
	Device string `json:"device"`
	// Ranges identifies the activation ranges, empty if the recipe needs none.
	Ranges    string       `json:"ranges,omitempty"`
	Source    string       `json:"source"`
	Positions int          `json:"positions"`
	Layers    []LayerCheck `json:"layers"`
	// Perplexity is exp of the mean loss, Ratio the recipe's over float's,
	// Uncertainty the standard error of that ratio's logarithm.
	Perplexity struct {
		Float       Number  `json:"float"`
		Recipe      Number  `json:"recipe"`
		Ratio       Number  `json:"ratio"`
		Uncertainty float64 `json:"uncertainty"`
	} `json:"perplexity"`
	// Divergence is the Kullback-Leibler divergence from float, in nats.
	Divergence Number `json:"kl"`
	// Top1 is the share of positions with float's top token, or with one that is
	// as likely. Tied counts the latter.
	Top1 float64 `json:"top1"`
	Tied int     `json:"tied"`
	// Weights is the size of the recipe's packed weights without their scales.
	// Image and Memory are the sizes on the device. AsFloats is set if the device
	// stores the weights as floats.
	Weights  int64 `json:"weight_bytes"`
	Image    int64 `json:"image_bytes"`
	Memory   int64 `json:"program_bytes"`
	AsFloats bool  `json:"blocks_as_floats,omitempty"`
	// CPU is the processor time per token on the device, in milliseconds.
	CPU    float64 `json:"cpu_ms_per_token"`
	Gate   Gate    `json:"gate"`
	Passed bool    `json:"passed"`
}

// LayerCheck compares the hidden states after a layer. SQNR is nil if there is
// no difference.
type LayerCheck struct {
	Layer int      `json:"layer"`
	SQNR  *float64 `json:"sqnr_db,omitempty"`
}

// Comparison describes a check to make.
type Comparison struct {
	Model  Model
	Recipe model.Recipe
	// Device runs the recipe. The reference runs on the float device.
	Device backend.Device
	Text   Text
	// ProcessorTime returns the time that all cores spent on this process.
	ProcessorTime func() time.Duration
	Progress      func(engine.Progress)
}

// Run computes the text in float32 and with the recipe and compares both. It
// leaves Check.Device and Check.AsFloats to the caller.
func (c Comparison) Run(ctx context.Context) (*Check, error) {
	passages, _, err := encodePassages(c.Model.Tokenizer, c.Text)
	if err != nil {
		return nil, err
	}
	exact, err := model.FindRecipe("f32")
	if err != nil {
		return nil, err
	}
	open := func(dev backend.Device, recipe model.Recipe) (*chain.Chain, error) {
		return chain.New(dev, c.Model.Model, passages, chain.Options{Recipe: recipe, Context: passageTokens, Processor: c.ProcessorTime})
	}
	reference, err := open(cpu.New(cpu.Options{}), exact)
	if err != nil {
		return nil, err
	}
	tested, err := open(c.Device, c.Recipe)
	if err != nil {
		return nil, err
	}
	found, err := chain.Compare(ctx, reference, tested, report(c.Progress, Comparing))
	if err != nil {
		return nil, err
	}
	r := newCheck(found, c.Recipe)
	r.Model, r.Digest, r.Source = c.Model.Name, c.Model.Digest(), c.Text.Source
	return r, nil
}

func newCheck(c *chain.Comparison, recipe model.Recipe) *Check {
	r := &Check{
		Recipe: recipe.Name, Ranges: rangesDigest(recipe.Ranges),
		Positions: c.Positions, Divergence: Number(c.Divergence), Top1: c.Agreement(), Tied: c.Tied,
		Weights: c.Sizes.Weights, Image: c.Sizes.Image, Memory: c.Sizes.Program, CPU: 1e3 * c.Spent.Seconds(), Gate: GateOf(recipe.Name),
	}
	r.Perplexity.Float, r.Perplexity.Recipe, r.Perplexity.Ratio = Number(c.Reference), Number(c.Tested), Number(c.Tested/c.Reference)
	if r.Perplexity.Uncertainty = c.Uncertainty; math.IsNaN(c.Uncertainty) || math.IsInf(c.Uncertainty, 0) {
		r.Perplexity.Uncertainty = 0
	}
	for i, db := range c.SQNR {
		l := LayerCheck{Layer: i}
		if !math.IsInf(db, 0) && !math.IsNaN(db) {
			l.SQNR = &db
		}
		r.Layers = append(r.Layers, l)
	}
	r.Passed = r.Positions >= MinPositions && r.Gate.Failure(r) == ""
	return r
}

// checkPath returns where the check of a recipe is kept.
func (s Store) checkPath(digest, recipe string) string {
	return filepath.Join(s.Cache, ChecksFolder, digest+"-"+recipe+FileSuffix)
}

// KeepCheck stores a check for [Store.LastCheck]. It ignores a check of fewer
// than [MinPositions].
func (s Store) KeepCheck(ctx context.Context, c *Check) error {
	if s.Cache == "" || c.Positions < MinPositions {
		return nil
	}
	return atomicfile.WriteJSON(ctx, s.checkPath(c.Digest, c.Recipe), c)
}

// LastCheck returns the last check of a recipe with its current ranges. It
// reports false if there is none that can be read.
func (s Store) LastCheck(digest string, recipe model.Recipe) (_ *Check, known bool) {
	if s.Cache == "" {
		return nil, false
	}
	data, err := os.ReadFile(s.checkPath(digest, recipe.Name))
	if err != nil {
		return nil, false
	}
	var c Check
	if json.Unmarshal(data, &c) != nil || c.Digest != digest || c.Recipe != recipe.Name || c.Ranges != rangesDigest(recipe.Ranges) {
		return nil, false
	}
	return &c, true
}
