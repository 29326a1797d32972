package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

// Config holds a model's hyper-parameters.
type Config struct {
	// Architecture is the file's general.architecture.
	Architecture string
	// Layers counts decoder layers; Hidden is the width of the residual stream.
	Layers, Hidden int
	// Heads query heads share KVHeads key and value heads evenly.
	Heads, KVHeads int
	// HeadDim is the width of one head, FFN that of the feed-forward network.
	HeadDim, FFN int
	// Vocab is the number of rows of the embedding's table.
	Vocab int
	// ContextLength is the longest text, in tokens, that the model was made for.
	ContextLength int
	// NormEpsilon is added to the mean square in every normalisation.
	NormEpsilon float32
	// RopeBase and RopeDim define the angles: pair j of RopeDim/2 turns by
	// RopeBase^(-2j/RopeDim) per position.
	RopeBase float64
	RopeDim  int
}

// groups is the number of query heads per key head.
func (c Config) groups() int { return c.Heads / c.KVHeads }

// maxSize bounds every hyper-parameter, so that products of two fit an int and
// no file can ask for absurd shapes.
const maxSize = 1 << 24

// keyReader reads an architecture's keys and keeps the first error.
type keyReader struct {
	file *gguf.File
	err  error
}

// size reads a positive number; fallback 0 means that the key must be there.
func (r *keyReader) size(suffix string, fallback int) int {
	var fallbacks []uint64
	if fallback > 0 {
		fallbacks = []uint64{uint64(fallback)}
	}
	n, err := r.file.ArchUint(suffix, fallbacks...)
	switch {
	case r.err != nil:
	case errors.Is(err, gguf.ErrKeyType): // one number per layer, most likely
		r.err = fmt.Errorf("model: %w: %w", errors.ErrUnsupported, err)
	case err != nil:
		r.err = fmt.Errorf("model: %w: %w", ErrInvalid, err)
	case n < 1 || n > maxSize:
		r.err = fmt.Errorf("model: %w: %s is %d, not within 1 to %d", ErrInvalid, r.file.ArchKey(suffix), n, maxSize)
	}
	return int(min(n, maxSize))
}

// number reads a positive finite number.
func (r *keyReader) number(suffix string, fallback ...float64) float64 {
	v, err := r.file.ArchFloat(suffix, fallback...)
	switch {
	case r.err != nil:
	case err != nil:
		r.err = fmt.Errorf("model: %w: %w", ErrInvalid, err)
	case !(v > 0) || math.IsInf(v, 0):
		r.err = fmt.Errorf("model: %w: %s is %v", ErrInvalid, r.file.ArchKey(suffix), v)
	}
	return v
}

// readConfig reads the hyper-parameters; Vocab comes from the embedding.
func readConfig(f *gguf.File) (Config, error) {
	r := keyReader{file: f}
	c := Config{
		Architecture:  f.Architecture(),
		Layers:        r.size("block_count", 0),
		Hidden:        r.size("embedding_length", 0),
		Heads:         r.size("attention.head_count", 0),
		FFN:           r.size("feed_forward_length", 0),
		ContextLength: r.size("context_length", 0),
		NormEpsilon:   float32(r.number("attention.layer_norm_rms_epsilon")),
		RopeBase:      r.number("rope.freq_base", 10000),
	}
	if r.err != nil {
		return Config{}, r.err
	}
	c.KVHeads = r.size("attention.head_count_kv", c.Heads)
	c.HeadDim = r.size("attention.key_length", c.Hidden/c.Heads)
	c.RopeDim = r.size("rope.dimension_count", c.HeadDim)
	if r.err != nil {
		return Config{}, r.err
	}
	return c, c.check(f)
}

// check refuses combinations that make no model or that the graphs lack.
func (c Config) check(f *gguf.File) error {
	valueDim, err := f.ArchUint("attention.value_length", uint64(c.HeadDim))
	switch {
	case err != nil:
		return fmt.Errorf("model: %w: %w", ErrInvalid, err)
	case !f.Has(f.ArchKey("attention.key_length")) && c.Hidden%c.Heads != 0:
		return fmt.Errorf("model: %w: %d heads do not divide a width of %d", ErrInvalid, c.Heads, c.Hidden)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("model: %w: %d key heads do not divide %d query heads", ErrInvalid, c.KVHeads, c.Heads)
	case c.NormEpsilon == 0 || c.NormEpsilon > 1:
		return fmt.Errorf("model: %w: %v is no epsilon for a normalisation", ErrInvalid, c.NormEpsilon)
	case valueDim != uint64(c.HeadDim):
		return unsupported("values %d wide beside keys %d wide", valueDim, c.HeadDim)
	case c.RopeDim != c.HeadDim:
		return unsupported("rope on %d of a head's %d elements", c.RopeDim, c.HeadDim)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("model: %w: rope pairs the elements of a head, which has %d", ErrInvalid, c.HeadDim)
	}
	return nil
}
