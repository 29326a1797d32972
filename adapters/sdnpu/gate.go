package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/backend/model"
)

// gate is what a recipe must keep of a model to be used.
type gate struct {
	// Top1 is the least share of positions with float's likeliest token, 0 for
	// any; a token that is as likely as float's counts as that.
	Top1 float64 `json:"top1"`
	// Ratio is the largest perplexity in proportion to float's, 0 for any.
	Ratio float64 `json:"perplexity_ratio"`
}

// gates are those of the recipes; one that is not named has none.
var gates = map[string]gate{
	"f16":   {Top1: 0.997},
	"w8":    {Top1: 0.98, Ratio: 1.01},
	"w8a16": {Top1: 0.98, Ratio: 1.01},
	"w4a16": {Ratio: 1.03},
	"w8a8":  {Ratio: 1.1},
}

func (g gate) String() string {
	var wants []string
	if g.Top1 > 0 {
		wants = append(wants, fmt.Sprintf("same token at %.1f %% and more", 100*g.Top1))
	}
	if g.Ratio > 0 {
		wants = append(wants, fmt.Sprintf("perplexity at most %+.0f %%", 100*(g.Ratio-1)))
	}
	if len(wants) == 0 {
		return "none"
	}
	return strings.Join(wants, ", ")
}

// failure says what a result lacks, "" for nothing.
func (g gate) failure(r *checkResult) string {
	var lacks []string
	if !(r.Top1 >= g.Top1) {
		lacks = append(lacks, fmt.Sprintf("the same token at %.2f %% of %d positions", 100*r.Top1, r.Positions))
	}
	if g.Ratio > 0 && !(r.Perplexity.Ratio <= g.Ratio) {
		lacks = append(lacks, fmt.Sprintf("perplexity %.4f, %+.2f %% against float", r.Perplexity.Recipe, 100*(r.Perplexity.Ratio-1)))
	}
	return strings.Join(lacks, "; ")
}

// gateVariable is the variable that lets recipes below their gate pass.
const gateVariable = "SDNPU_GATE"

// errGate is returned for a recipe that was found to spoil a model.
var errGate = errors.New("recipe is below its gate")

// checkPath is where the result of a check is kept, or "" where nothing is.
func (s settings) checkPath(digest, recipe string) string {
	if s.cache == "" {
		return ""
	}
	return filepath.Join(s.cache, checksFolder, digest+"-"+recipe+keptFileSuffix)
}

// lastCheck is the result of a recipe's last check on this machine. Where none
// was made, none that can be read, or one with other ranges than those of the
// recipe, nothing is known.
func (s settings) lastCheck(digest string, recipe model.Recipe) (_ *checkResult, known bool) {
	data, err := os.ReadFile(s.checkPath(digest, recipe.Name))
	if err != nil {
		return nil, false
	}
	var r checkResult
	if json.Unmarshal(data, &r) != nil || r.Digest != digest || r.Recipe != recipe.Name || r.Ranges != rangesDigest(recipe.Ranges) {
		return nil, false
	}
	return &r, true
}

// passes refuses a recipe that its last check found below its gate.
func (s settings) passes(digest string, recipe model.Recipe) error {
	r, known := s.lastCheck(digest, recipe)
	if !known || s.gateOff {
		return nil
	}
	reason := gates[recipe.Name].failure(r)
	if reason == "" {
		return nil
	}
	remedy := "choose another recipe"
	if recipe.NeedsRanges() {
		remedy += ", or calibrate with other texts (sdnpu calibrate MODEL.gguf --text FILE), which voids this check"
	}
	return fmt.Errorf("%w: %s: %s; wanted: %s; found by sdnpu check on %s: %s, or set %s=off",
		errGate, recipe.Name, reason, gates[recipe.Name], r.Device, remedy, gateVariable)
}

// tellUnchecked says that nobody has looked what a recipe of integers makes of
// the model.
func (s settings) tellUnchecked(j job, digest string, recipe model.Recipe) {
	if s.gateOff || s.cache == "" || recipe.Linear.Bits == 0 {
		return
	}
	if _, known := s.lastCheck(digest, recipe); known {
		return
	}
	text := "recipe was not checked on this model"
	if recipe.NeedsRanges() {
		text += " with these ranges"
	}
	j.logger.Warn(text, "recipe", recipe.Name, "remedy", "sdnpu check MODEL.gguf --recipe "+recipe.Name)
}
