package findings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/backend/model"
)

// ErrRangesFile is returned for a file that does not hold ranges of the model.
var ErrRangesFile = errors.New("no ranges of this model")

// Increase rangesVersion when calibration finds other ranges in the same text.
const rangesVersion = 4

// RangesFile is the result of a calibration as it is stored in JSON.
type RangesFile struct {
	Version int `json:"version"`
	// Model is the model's name in messages. Digest identifies the model file.
	Model  string `json:"model"`
	Digest string `json:"digest"`
	// Source says which text was used, and Tokens is its length.
	Source  string                 `json:"source"`
	Tokens  int                    `json:"tokens"`
	Tensors map[string]model.Range `json:"tensors"`
	// Channels holds the largest magnitude in each channel of keys and values.
	Channels map[string][]float32 `json:"channels,omitempty"`
	// Rounded is the digest of the codes file next to this file, or empty if there
	// is none.
	Rounded string `json:"rounded,omitempty"`
	// Block is the value of [model.Rounded].Block.
	Block int `json:"block,omitempty"`
}

// RangesPath returns the path of the file for a model's ranges with a recipe, or ""
// if the store stores nothing. Recipes that round weights in the same form share
// their ranges.
func (s Store) RangesPath(digest string, r model.Recipe) string {
	if s.Cache == "" {
		return ""
	}
	return filepath.Join(s.Cache, RangesFolder, digest+formSuffix(r)+FileSuffix)
}

// formSuffix is the part of a file name that says in which form a recipe rounds
// weights.
func formSuffix(r model.Recipe) string {
	if r.Multiples() == 0 {
		return ""
	}
	return fmt.Sprintf("-x%d", r.Multiples())
}

// preparedRangesPrefix starts the names of ranges and rounded weights in a folder of prepared images.
const preparedRangesPrefix = "ranges-"

// preparedRangesName returns the name of the ranges file in a folder of prepared
// images. The ranges are copied together with the images. A calibration on another
// machine would not give the same bits, and so not the same graphs.
func preparedRangesName(digest string, r model.Recipe) string {
	return preparedRangesPrefix + digest + formSuffix(r) + FileSuffix
}

// ReadRanges reads ranges for the model with the given digest.
func ReadRanges(path, digest string) (*model.Ranges, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseRanges(path, digest, data, func(id string) (*model.Rounded, error) { return openCodes(CodesPath(path), id) })
}

// parseRanges reads the content of a ranges file. codes opens the rounded weights with an ID.
func parseRanges(path, digest string, data []byte, codes func(id string) (*model.Rounded, error)) (*model.Ranges, error) {
	var f RangesFile
	var err error
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrRangesFile, err)
	}
	if f.Version != rangesVersion || f.Digest != digest || len(f.Tensors) == 0 {
		return nil, fmt.Errorf("%s: %w: it has version %d and is of %s (%.12s)", path, ErrRangesFile, f.Version, f.Model, f.Digest)
	}
	r := &model.Ranges{Tensors: f.Tensors, Channels: f.Channels}
	if f.Rounded != "" {
		if r.Rounded, err = codes(f.Rounded); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.Rounded.Block = f.Block
	}
	return r, nil
}

// WritePreparedRanges writes the recipe's ranges and rounded weights to a folder of
// prepared images. The device needs these ranges if it has to compile further
// images itself.
func WritePreparedRanges(ctx context.Context, folder, name, digest string, recipe model.Recipe) error {
	r := recipe.Ranges
	f := RangesFile{Version: rangesVersion, Model: name, Digest: digest, Source: "sdnpu prepare", Tensors: r.Tensors, Channels: r.Channels}
	path := filepath.Join(folder, preparedRangesName(digest, recipe))
	if r.Rounded != nil {
		f.Rounded, f.Block = r.Rounded.ID, r.Rounded.Block
		if err := copyCodes(ctx, CodesPath(path), r.Rounded); err != nil {
			return err
		}
	}
	return atomicfile.WriteJSON(ctx, path, f)
}

// rangesDigest returns a digest of ranges and rounded weights. rangesDigest
// returns "" for nil.
func rangesDigest(r *model.Ranges) string {
	if r == nil {
		return ""
	}
	var text []byte
	for _, tensor := range slices.Sorted(maps.Keys(r.Tensors)) {
		seen := r.Tensors[tensor]
		text = fmt.Appendf(text, "%s %x %x %x\n", tensor, math.Float32bits(seen.Low), math.Float32bits(seen.High), math.Float32bits(seen.RMS))
	}
	for _, tensor := range slices.Sorted(maps.Keys(r.Channels)) {
		text = fmt.Appendf(text, "%s %x\n", tensor, r.Channels[tensor])
	}
	if r.Rounded != nil {
		text = append(text, r.Rounded.ID...)
	}
	return digestOf(text)
}

// digestOf returns the SHA-256 of content in hexadecimal digits.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
