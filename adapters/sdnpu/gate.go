package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if top1 := r.Top1 + float64(r.Tied)/float64(r.Positions); !(top1 >= g.Top1) {
		lacks = append(lacks, fmt.Sprintf("the same token at %.2f %% of %d positions", 100*top1, r.Positions))
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
	return filepath.Join(filepath.Dir(s.cache), "checks", digest+"-"+recipe+".json")
}

// passes refuses a recipe that a check on this machine found below its gate.
// Where no check was made, or none that can be read, nothing is known.
func (s settings) passes(digest, recipe string) error {
	if s.gateOff {
		return nil
	}
	data, err := os.ReadFile(s.checkPath(digest, recipe))
	if err != nil {
		return nil
	}
	var r checkResult
	if json.Unmarshal(data, &r) != nil || r.Digest != digest || r.Recipe != recipe {
		return nil
	}
	if reason := gates[recipe].failure(&r); reason != "" {
		return fmt.Errorf("%w: %s: %s; wanted: %s; found by sdnpu check on %s: choose another recipe, or set %s=off",
			errGate, recipe, reason, gates[recipe], r.Device, gateVariable)
	}
	return nil
}
