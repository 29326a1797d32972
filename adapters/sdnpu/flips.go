package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

const (
	// flipsFolder is the folder of the image cache that keeps what was measured.
	flipsFolder = "flips"
	// flipsPositions is how many tokens are compared, a pass for each: seconds on a
	// phone. Where passes take seconds it is no fewer than leastFlips; flipsLead
	// stand before them.
	flipsPositions = 64
	leastFlips     = 8
	flipsLead      = 16
)

// flipsFile is what was measured of a model, and on what.
type flipsFile struct {
	Model  string `json:"model"`
	Digest string `json:"digest"`
	Recipe string `json:"recipe"`
	Ranges string `json:"ranges,omitempty"`
	Device string `json:"device"`
	// Fingerprint is the device's, library and lowering in it.
	Fingerprint string `json:"fingerprint"`
	// Least and Compared are [engine.Options.FlipWidths].
	Least    int   `json:"least"`
	Compared []int `json:"compared"`
	engine.Flips
}

// flipsOf names what flips are measured of.
func flipsOf(c backend.Capabilities, m *model.Model, o engine.Options) (flipsFile, error) {
	rows, _, _, err := o.Shape(m.Config())
	if err != nil {
		return flipsFile{}, err
	}
	o.Rows = rows
	f := flipsFile{
		Model: o.Name, Digest: m.Digest(), Recipe: o.Recipe.Name, Ranges: rangesDigest(o.Recipe.Ranges),
		Device: c.Name, Fingerprint: c.Fingerprint,
	}
	f.Least, f.Compared = o.FlipWidths()
	return f, nil
}

// path is where they are kept.
func (f flipsFile) path(s settings) string {
	of := digestOf(fmt.Appendf(nil, "%s %s %s %s %d %v", f.Digest, f.Recipe, f.Ranges, f.Fingerprint, f.Least, f.Compared))
	return filepath.Join(s.cache, flipsFolder, of+keptFileSuffix)
}

// read is what was measured of the same, nil where nothing was: a file that says
// nothing is as good as none.
func (f flipsFile) read(s settings) *engine.Flips {
	data, err := os.ReadFile(f.path(s))
	var known flipsFile
	if err == nil && json.Unmarshal(data, &known) == nil && known.Positions > 0 && known.Digest == f.Digest &&
		known.Fingerprint == f.Fingerprint && known.Least == f.Least && slices.Equal(known.Compared, f.Compared) {
		return &known.Flips
	}
	return nil
}

// knownFlips tells the engine what was measured of the model on this device.
// Where that is nothing reports name the remedy.
func (s settings) knownFlips(f flipsFile, o *engine.Options) {
	if s.cache != "" {
		o.Flips = f.read(s)
	}
}

// measureFlips compares passes of a loaded model and keeps what it finds, unless
// more positions of the same were compared before. A context that is too short
// for the text has part of it.
func (s settings) measureFlips(ctx context.Context, l *loaded, positions int) (found *engine.Flips, kept, err error) {
	text, err := l.tokenizer.Encode(strings.ReplaceAll(checkText, passageEnd, "\n"), tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return nil, nil, err
	}
	text = text[:min(len(text), flipsLead+positions, l.engine.ContextLength())]
	found, err = l.engine.MeasureFlips(ctx, text, min(flipsLead, len(text)-1))
	if err != nil || s.cache == "" || found.Positions == 0 {
		return found, nil, err
	}
	f := l.flips
	if before := f.read(s); before != nil && before.Positions > found.Positions {
		return found, nil, nil
	}
	f.Flips = *found
	return found, storeJSON(ctx, f.path(s), f), nil
}

// losslessText says what was found.
func losslessText(f *engine.Flips, exact bool, err error) string {
	switch {
	case errors.Is(err, engine.ErrOptions):
		return "not measured: its plan exchanges graphs; SDNPU_PLAN=both_resident with --rows as the plan has them lets all widths be compared"
	case err != nil:
		return "not measured: " + err.Error()
	case len(f.Widths) == 0:
		return "each pass has one row: nothing is drafted, nothing can differ"
	}
	var parts []string
	for _, w := range f.Widths {
		parts = append(parts, fmt.Sprintf("%d tokens on %d rows: another choice at %d, all logits the same bits at %d", w.Valid, w.Rows, w.Flipped, w.Equal))
	}
	share := float64(f.Flipped) / float64(f.Positions)
	text := fmt.Sprintf("of %d tokens %d flip when passes are fuller (the rate is at most %.0f in 1000, with 95 %% certainty); %s",
		f.Positions, f.Flipped, 1000*upperShare(share, f.Positions), strings.Join(parts, "; "))
	switch {
	case f.Equal():
		return text + "; drafts changed no bit"
	case exact:
		return text + "; on this library rows depend on what else their pass holds, so one width does not make texts equal to the bit"
	}
	return text + "; sdnpu.exact=true leaves one width"
}

// modelLossless is how often the width of passes changes the likeliest token.
type modelLossless struct {
	Exact            bool    `json:"exact"`
	FlipsPerThousand float64 `json:"flips_per_1000"`
	engine.Flips
}

// flipsPatience is how long comparing passes may take where nobody says how many.
const flipsPatience = 20 * time.Second

// measureFlips tells what drafts may change of the model's texts: at as many
// positions as the user wants, or as passes of some length allow.
func (c *checkup) measureFlips(ctx context.Context, l *loaded, pass time.Duration, say sayFunc) error {
	positions := c.flags.flips
	if positions == 0 {
		positions = min(max(leastFlips, int(flipsPatience/max(pass, 1))), flipsPositions)
	}
	f, kept, err := c.settings.measureFlips(ctx, l, positions)
	text := losslessText(f, c.config.Exact, err)
	say("lossless", "%s", text)
	if kept != nil {
		say("lossless", "not kept, so reports will not tell it: %v; SDNPU_CACHE names a folder that can be written", kept)
	}
	switch {
	case err == nil:
		c.result.Lossless = &modelLossless{c.config.Exact, f.PerThousand(), *f}
	case ctx.Err() != nil:
		return err
	default:
		c.result.Unmeasured = text
	}
	return nil
}
