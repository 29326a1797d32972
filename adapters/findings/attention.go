package findings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/heads"
	"github.com/sdnpu/sdnpu/backend/model"
)

// ErrAttentionFile is returned for a file that does not hold the importance of this model's heads.
var ErrAttentionFile = errors.New("the file does not hold the importance of this model's heads")

// Increase attentionVersion whenever a change of the code makes the calibration find other
// importances in the same text.
const attentionVersion = 1

// The constants below are the shape of a calibration of attention.
const (
	// attentionContext is the length in tokens of the parts into which the text is cut.
	attentionContext = 512
	// attentionParts is the largest number of parts, and attentionRows the number of rows of all
	// parts together whose results of attention are set to zero.
	attentionParts = 8
	attentionRows  = 128
	// largestImportance bounds the importances in a file: no loss per token is larger.
	largestImportance = 1e3
)

// AttentionFile is the result of a calibration of attention, in the form in which it is stored in
// JSON.
type AttentionFile struct {
	Version int `json:"version"`
	// Model is the model's name in messages. Digest identifies the model file.
	Model  string `json:"model"`
	Digest string `json:"digest"`
	// Source says which text was used, and Tokens and Rows how much of it.
	Source string `json:"source"`
	Tokens int    `json:"tokens"`
	Rows   int    `json:"rows"`
	heads.Importance
}

// AttentionPath returns the path of the file for the importance of a model's heads, or "" if the
// store stores nothing.
func (s Store) AttentionPath(digest string) string {
	if s.Cache == "" {
		return ""
	}
	return filepath.Join(s.Cache, AttentionFolder, digest+FileSuffix)
}

// AttentionRatios returns the share of keys that each head of a model keeps, with the given mean. If
// the model's attention was never calibrated, the error wraps [os.ErrNotExist].
func (s Store) AttentionRatios(m *model.Model, mean float64) ([][]float64, error) {
	if s.Cache == "" {
		return nil, fmt.Errorf("importance of heads: no image cache: %w", os.ErrNotExist)
	}
	f, err := ReadAttention(s.AttentionPath(m.Digest()), m.Digest(), m.Config())
	if err != nil {
		return nil, err
	}
	return heads.Ratios(f.Weights(), mean)
}

// ReadAttention reads the importance of heads for the model with the given digest.
func ReadAttention(path, digest string, c model.Config) (f AttentionFile, err error) {
	data, err := readTrusted(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%s: %w: %w", path, ErrAttentionFile, err)
	}
	if f.Version != attentionVersion || f.Digest != digest {
		return f, fmt.Errorf("%s: %w: the file has version %d and belongs to the model %.80q (digest %.12q): run sdnpu calibrate --attention", path, ErrAttentionFile, f.Version, f.Model, f.Digest)
	}
	if err := f.check(c); err != nil {
		return f, fmt.Errorf("%s: %w: %w: run sdnpu calibrate --attention", path, ErrAttentionFile, err)
	}
	return f, nil
}

// check compares the numbers of layers and heads with the model's, and bounds all numbers.
func (f *AttentionFile) check(c model.Config) error {
	if len(f.Heads) != c.Layers || len(f.Layers) != c.Layers {
		return fmt.Errorf("heads of %d layers and %d layers, want %d", len(f.Heads), len(f.Layers), c.Layers)
	}
	for i, list := range f.Heads {
		if len(list) != c.Heads {
			return fmt.Errorf("layer %d has %d heads, want %d", i, len(list), c.Heads)
		}
		for _, v := range append(list[:len(list):len(list)], f.Layers[i]) {
			if !(math.Abs(v) <= largestImportance) {
				return fmt.Errorf("layer %d has the importance %v, want at most %v", i, v, float64(largestImportance))
			}
		}
	}
	return nil
}

// AttentionCalibration describes a calibration of attention: its model and text.
type AttentionCalibration struct {
	Model Model
	Text  Text
	// Progress, if set, is called after each step of the calibration.
	Progress func(engine.Progress)
}

// WriteTo measures the importance of the model's heads and stores it in a file.
func (a AttentionCalibration) WriteTo(ctx context.Context, path string) (f AttentionFile, err error) {
	if f, err = a.run(ctx); err != nil {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return f, err
	}
	return f, atomicfile.WriteJSON(ctx, path, f)
}

// run measures the importance of the model's heads on the float device.
func (a AttentionCalibration) run(ctx context.Context) (f AttentionFile, err error) {
	parts, tokens, err := a.parts()
	if err != nil {
		return f, err
	}
	rows := min(attentionRows/len(parts), len(parts[0])/2)
	dev := cpu.New(cpu.Options{})
	defer func() { err = errors.Join(err, dev.Close()) }()
	m, err := heads.Open(ctx, dev, a.Model.Model, attentionRows, attentionContext)
	if err != nil {
		return f, fmt.Errorf("calibrate attention: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	p, err := m.Measure(ctx, parts, rows, report(a.Progress, Weighing))
	if err != nil {
		return f, fmt.Errorf("calibrate attention: %w", err)
	}
	return AttentionFile{
		Version: attentionVersion, Model: a.Model.Name, Digest: a.Model.Digest(), Source: a.Text.Source,
		Tokens: tokens, Rows: rows * len(parts), Importance: *p,
	}, nil
}

// parts encodes the text and cuts it into parts of equal length, spread over the text.
func (a AttentionCalibration) parts() (parts [][]int32, tokens int, err error) {
	passages, total, err := encodePassages(a.Model.Tokenizer, a.Text)
	if err != nil {
		return nil, 0, err
	}
	if total < MinTokens {
		return nil, 0, fmt.Errorf("%w: %s has %d tokens, want at least %d: add more files with --text, or none for the default text", ErrTooLittleText, a.Text.Source, total, MinTokens)
	}
	all := make([]int32, 0, total)
	for _, p := range passages {
		all = append(all, p...)
	}
	length := min(total, attentionContext)
	count := min(total/length, attentionParts)
	for i := range count {
		at := 0
		if count > 1 {
			at = i * (total - length) / (count - 1)
		}
		parts = append(parts, all[at:at+length])
	}
	return parts, count * length, nil
}
