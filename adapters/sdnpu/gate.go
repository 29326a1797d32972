package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/backend/model"
)

// gate is what a recipe must keep of a model to be used. It refuses what a check
// shows to lack it, and a check shows no more than its positions can: see
// [gate.failure].
type gate struct {
	// Top1 is the least share of positions with float's likeliest token, 0 for
	// any; a token that is as likely as float's counts as that.
	Top1 float64 `json:"top1"`
	// Ratio is the largest perplexity in proportion to float's, 0 for any.
	Ratio float64 `json:"perplexity_ratio"`
}

// gates are those of the recipes; one that is not named has none.
var gates = map[string]gate{
	"f16":        {Top1: 0.997},
	"w8":         {Top1: 0.98, Ratio: 1.01},
	"w8a16":      {Top1: 0.98, Ratio: 1.01},
	"w4a16":      {Ratio: 1.03},
	"w4a16-lpbq": {Ratio: 1.03},
	"w8a8":       {Ratio: 1.1},
}

// gateOf is a recipe's gate. A cache of 8 bits has to keep what the recipe does.
func gateOf(recipe string) gate { return gates[strings.TrimSuffix(recipe, model.SmallCache)] }

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

// certainty is the normal quantile of the one-sided 95 % that a check must be
// sure of before a gate refuses.
const certainty = 1.645

// leastPositions is how many positions a check needs to be kept and to decide.
// A share of 99.7 % seen at 500 may be one of 99.1 %.
const leastPositions = 500

// errFewPositions is returned for a check that is too small to decide.
var errFewPositions = errors.New("too few positions to judge a recipe")

// lacking says in which figures a result stays behind the gate, whatever they
// are worth; "" for none.
func (g gate) lacking(r *checkResult) string {
	return g.behind(r, r.Top1, float64(r.Perplexity.Ratio))
}

// failure says what a result is shown to lack, "" for nothing. Other texts of
// the same length would have given other figures: a recipe fails where even the
// favourable end of what they may be, with a certainty of 95 %, is below the
// gate. So a recipe that is as good as the gate asks is refused once in twenty
// times, instead of every second time.
func (g gate) failure(r *checkResult) string {
	return g.behind(r, upperShare(r.Top1, r.Positions), float64(r.Perplexity.Ratio)*math.Exp(-certainty*r.Perplexity.Uncertainty))
}

// behind names those of a result's figures that are behind the gate, a share and
// a ratio being what to count them as.
func (g gate) behind(r *checkResult, top1, ratio float64) string {
	var lacks []string
	if !(top1 >= g.Top1) {
		lacks = append(lacks, fmt.Sprintf("the same token at %.2f %% of %d positions", 100*r.Top1, r.Positions))
	}
	if g.Ratio > 0 && !(ratio <= g.Ratio) {
		lacks = append(lacks, fmt.Sprintf("perplexity %.4f, %+.2f %% against float", r.Perplexity.Recipe, 100*(r.Perplexity.Ratio-1)))
	}
	return strings.Join(lacks, "; ")
}

// upperShare is the largest share that n trials, of which this share succeeded,
// do not speak against: Wilson's interval, which holds for shares near one where
// the plain normal one would not (Brown, Cai, DasGupta: Interval Estimation for a
// Binomial Proportion, 2001).
func upperShare(share float64, n int) float64 {
	const z2 = certainty * certainty
	trials := float64(n)
	centre := share + z2/(2*trials)
	return (centre + certainty*math.Sqrt(share*(1-share)/trials+z2/(4*trials*trials))) / (1 + z2/trials)
}

// verdict says in words what a gate makes of a result.
func (g gate) verdict(r *checkResult) string {
	failed, lacking := g.failure(r), g.lacking(r)
	switch {
	case r.Positions < leastPositions:
		return fmt.Sprintf("open: %d positions do not decide, %d do", r.Positions, leastPositions)
	case failed != "":
		return "failed: " + failed
	case lacking != "":
		return "passed within the uncertainty of so many positions: " + lacking
	}
	return "passed"
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
	reason := gateOf(recipe.Name).failure(r)
	if reason == "" {
		return nil
	}
	return r.refusal(reason)
}

// refusal is the error of a result that lacks something, with what to do.
func (r *checkResult) refusal(reason string) error {
	remedy := "choose another recipe"
	if r.Ranges != "" {
		remedy += ", or calibrate with other texts (sdnpu calibrate MODEL.gguf --text FILE), which voids this check"
	}
	return fmt.Errorf("%w: %s: %s; wanted: %s; found by sdnpu check on %s: %s, or set %s=off",
		errGate, r.Recipe, reason, gateOf(r.Recipe), r.Device, remedy, gateVariable)
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
