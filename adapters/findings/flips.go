package findings

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// Positions to compare, one pass each.
const (
	// FlipPositions is the usual number. It takes seconds on a phone.
	FlipPositions = 64
	// MinFlipPositions is the number if a pass takes seconds.
	MinFlipPositions = 8
	// flipPrefix tokens precede the first compared position.
	flipPrefix = 16
)

// FlipsFile is the JSON form of measured flips and of the settings that they
// hold for.
type FlipsFile struct {
	Model  string `json:"model"`
	Digest string `json:"digest"`
	Recipe string `json:"recipe"`
	Ranges string `json:"ranges,omitempty"`
	Device string `json:"device"`
	// Fingerprint is the device's. It covers the library and the lowering.
	Fingerprint string `json:"fingerprint"`
	// Least and Compared are the results of [engine.Options.FlipWidths].
	Least    int   `json:"least"`
	Compared []int `json:"compared"`
	engine.Flips
}

// FlipsOf returns the settings that flips are measured for, without flips.
func FlipsOf(c backend.Capabilities, m *model.Model, o engine.Options) (FlipsFile, error) {
	rows, _, _, err := o.Shape(m.Config())
	if err != nil {
		return FlipsFile{}, err
	}
	o.Rows = rows
	f := FlipsFile{
		Model: o.Name, Digest: m.Digest(), Recipe: o.Recipe.Name, Ranges: rangesDigest(o.Recipe.Ranges),
		Device: c.Name, Fingerprint: c.Fingerprint,
	}
	f.Least, f.Compared = o.FlipWidths()
	return f, nil
}

func (s Store) flipsPath(f FlipsFile) string {
	key := digestOf(fmt.Appendf(nil, "%s %s %s %s %d %v", f.Digest, f.Recipe, f.Ranges, f.Fingerprint, f.Least, f.Compared))
	return filepath.Join(s.Cache, FlipsFolder, key+FileSuffix)
}

// KnownFlips returns the flips that were measured with the same settings, or nil.
func (s Store) KnownFlips(f FlipsFile) *engine.Flips {
	if s.Cache == "" {
		return nil
	}
	data, err := os.ReadFile(s.flipsPath(f))
	var known FlipsFile
	if err == nil && json.Unmarshal(data, &known) == nil && known.Positions > 0 && known.Digest == f.Digest &&
		known.Fingerprint == f.Fingerprint && known.Least == f.Least && slices.Equal(known.Compared, f.Compared) {
		return &known.Flips
	}
	return nil
}

// MeasureFlips compares the passes of an engine at a number of positions, fewer
// if its context is too short. It keeps the result unless a result of more
// positions is kept. An error of keeping it is returned as notKept.
func (s Store) MeasureFlips(ctx context.Context, f FlipsFile, e *engine.Engine, tok *tokenizer.Tokenizer, positions int) (found *engine.Flips, notKept, err error) {
	text, err := tok.Encode(strings.ReplaceAll(checkText, PassageEnd, "\n"), tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return nil, nil, err
	}
	text = text[:min(len(text), flipPrefix+positions, e.ContextLength())]
	found, err = e.MeasureFlips(ctx, text, min(flipPrefix, len(text)-1))
	if err != nil || s.Cache == "" || found.Positions == 0 {
		return found, nil, err
	}
	if kept := s.KnownFlips(f); kept != nil && kept.Positions > found.Positions {
		return found, nil, nil
	}
	f.Flips = *found
	return found, atomicfile.WriteJSON(ctx, s.flipsPath(f), f), nil
}
