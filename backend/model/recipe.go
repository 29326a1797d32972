package model

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// Recipe defines the types in which a graph computes. It is data: one writer
// writes all recipes for every family.
type Recipe struct {
	// Name selects the recipe.
	Name string
	// Weights is the type of constants, Activations the type of tensors between operators, and
	// Cache the type of keys and values at a block's ports.
	Weights, Activations, Cache backend.DataType
	// Linear selects how projections multiply. If it is zero, they multiply in the types above.
	// Head selects the same for the projection to the vocabulary. If it is zero, Linear applies.
	Linear, Head Linear
	// Sensitive applies to the projections that suffer most from rounding: the projections of
	// values, and projections with outliers in inputs or results according to [Ranges]. Zero means
	// as Linear.
	Sensitive Linear
	// FixedGate keeps the tensors between the projections of a feed-forward network in Linear's
	// Activations, 16-bit integers. It applies if the family has a form of its gate for it and no
	// projection is sensitive. The NPU takes a third less time for a layer of 32 rows than with
	// float16 between them (adapters/lab/estimate/testdata).
	FixedGate bool
	// Ranges are the activation ranges around projections. They are needed if
	// Linear or Cache rounds activations to integers.
	Ranges *Ranges
}

// Linear selects how a projection multiplies.
type Linear struct {
	// Bits is the number of bits of a weight: 8, 4, or 0 to keep weights as
	// they are. Block is the number of inputs that share a scale and an offset;
	// 0 means that all inputs of an output share a scale without offset. With
	// integer activations, the scale of a 4-bit block is an integer multiple of
	// its output's scale, without offset ([backend.Encoding.Multiplied]). A
	// matrix whose inputs are not a multiple of Block has 8 bits and a scale
	// per output.
	Bits, Block int
	// Activations is the type of inputs and results. The recipe's own type is
	// converted to and from it. Zero means no conversion.
	Activations backend.DataType
}

// encoding returns the encoding of a matrix's weights.
func (l Linear) encoding(matrix *weight) backend.Encoding {
	switch {
	case l.Block == 0 && l.Bits == 4:
		return backend.Encoding{Grain: backend.PerRow, Bits: l.Bits}
	case l.Block == 0 || matrix.columns%l.Block != 0:
		return backend.Encoding{Grain: backend.PerRow}
	case l.Activations != 0:
		return backend.Encoding{Grain: backend.PerRow, Block: l.Block, Bits: l.Bits}
	}
	return backend.Encoding{Grain: backend.PerBlock, Block: l.Block, Bits: l.Bits}
}

// Recipes lists the known recipes, the default first.
var Recipes = []Recipe{
	{Name: "f16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16},
	{Name: "f32", Weights: backend.Float32, Activations: backend.Float32, Cache: backend.Float32},
	{ // blocks with offsets hold the weights of Q8_0, Q4_0, Q4_1 and Q4_K exactly
		Name: "w8", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: blocks8,
	},
	{ // close logits of a vocabulary need a finer head than the rest
		Name: "w8a16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 8, Activations: backend.Ufixed16}, Head: blocks8, Sensitive: blocks8, FixedGate: true,
	},
	{
		Name: "w4a16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: blocks4, Head: blocks8,
	},
	{ // 4 bits with integer activations; sensitive projections keep blocks with real scales
		Name: "w4a16-lpbq", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 4, Block: 32, Activations: backend.Ufixed16}, Head: blocks8, Sensitive: blocks4, FixedGate: true,
	},
	{
		Name: "w8a8", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 8, Activations: backend.Ufixed8}, Head: blocks8, Sensitive: blocks8,
	},
}

// blocks8 and blocks4 are weights of 8 and 4 bits in blocks of 32, with float16
// activations.
var (
	blocks8 = Linear{Bits: 8, Block: 32}
	blocks4 = Linear{Bits: 4, Block: 32}
)

// SmallCache is the suffix of recipes that keep keys and values in 8 bits:
// "w8a16+kv8" is w8a16 with half the cache. Every float16 recipe has this
// variant.
const SmallCache = "+kv8"

// FindRecipe returns the named recipe, without ranges. The error for an unknown
// name wraps [ErrRecipe].
func FindRecipe(name string) (Recipe, error) {
	base, small := strings.CutSuffix(name, SmallCache)
	names := make([]string, len(Recipes))
	for i, r := range Recipes {
		names[i] = r.Name
		switch {
		case r.Name == base && !small:
			return r, nil
		case r.Name == base && r.Activations == backend.Float16:
			r.Name, r.Cache = name, backend.Ufixed8
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("model: %w %.80q: want one of %s; all but f32 also take the suffix %s",
		ErrRecipe, name, strings.Join(names, ", "), SmallCache)
}

// NeedsRanges reports whether graphs need [Recipe.Ranges].
func (r Recipe) NeedsRanges() bool {
	return r.Linear.Activations != 0 || r.RoundsHead() || r.Cache.Fixed()
}

// RoundsHead reports whether the head's graph needs ranges.
func (r Recipe) RoundsHead() bool { return r.head().Activations != 0 }

// Multiples returns [Rounded].Block for the recipe's matrices.
func (r Recipe) Multiples() int {
	if r.Linear.Activations == 0 {
		return 0
	}
	return r.Linear.Block
}

// compensated reports whether [Ranges.Rounded] may hold matrices of this form.
func compensated(l Linear) bool { return l.Bits == 8 && l.Block == 0 || l.Activations != 0 }

// head returns how the projection to the vocabulary multiplies.
func (r Recipe) head() Linear {
	if r.Head == (Linear{}) {
		return r.Linear
	}
	return r.Head
}

// check rejects recipes that the graphs cannot express.
func (r Recipe) check() error {
	small := r.Cache == backend.Ufixed8 && r.Activations == backend.Float16
	if !r.Activations.Float() || r.Weights != r.Activations || r.Cache != r.Activations && !small {
		return fmt.Errorf("model: recipe %q: weights %v, activations %v, cache %v: want one floating-point type, or a cache of u8 with f16: %w",
			r.Name, r.Weights, r.Activations, r.Cache, errors.ErrUnsupported)
	}
	for _, l := range []Linear{r.Linear, r.head(), r.Sensitive} {
		known := l.Bits == 8 || l.Bits == 4
		if l != (Linear{}) && (!known || l.Block < 0 || r.Activations != backend.Float16 || l.Block != 0 && l.Activations != 0 && l.Bits != 4) {
			return fmt.Errorf("model: recipe %q: projections %+v under %v: %w", r.Name, l, r.Activations, errors.ErrUnsupported)
		}
	}
	if r.FixedGate && r.Linear.Activations != backend.Ufixed16 {
		return fmt.Errorf("model: recipe %q: a fixed gate under activations of %v: %w", r.Name, r.Linear.Activations, errors.ErrUnsupported)
	}
	if r.NeedsRanges() && r.Ranges == nil {
		return fmt.Errorf("model: recipe %q: %w: calibrate the model first", r.Name, ErrRanges)
	}
	return nil
}

// Ranges holds the observed values of a model's activations, by the names of
// the tensors in its graphs.
type Ranges struct {
	Tensors map[string]Range
	// Channels are the largest magnitudes of each element of keys and values,
	// (head, element), by the names that [NewKey] and [NewValue] return.
	Channels map[string][]float32
	// Rounded holds the layers' matrices as calibration rounded them, or nil if
	// each element is rounded to the nearest.
	Rounded *Rounded
}

// Rounded holds matrices that calibration rounded. It can be sent to another
// process, which restores Codes from File or Content.
type Rounded struct {
	// ID identifies their content; Constants lists their names.
	ID        string
	Constants []string
	// Block is the number of inputs that share a multiple of 4-bit integers
	// ([Recipe.Multiples]), or 0 for 8-bit integers.
	Block int
	// File holds the content; if File is empty, Content does.
	File    string
	Content []byte
	// Codes returns the elements of a matrix, (row, column), by its constant's name. Neither the
	// sender nor the receiver may change the bytes.
	Codes func(constant string) ([]byte, error)
}

// Range is the least and the largest number of a tensor, and the root of their
// mean square, or 0 if that was not measured.
type Range struct {
	Low  float32 `json:"low"`
	High float32 `json:"high"`
	RMS  float32 `json:"rms,omitempty"`
}

// spike is the largest useful ratio of a tensor's largest number to its root
// mean square. Beyond it, a scale that reaches the outliers is too coarse for
// the other numbers: the first token of each text makes single channels of some
// projections hundreds of times larger than the rest.
//
// Of SmolLM2-135M's 210 projections 36 are beyond this ratio, including its 30
// down projections. If all projections have 16-bit integers, the model's
// divergence is 2.5e-3 nats; without the nine projections beyond a ratio of
// 100, it is 1e-5. Their weights have blocks, because an outlier also
// multiplies the errors of its weights: the eight down projections between 40
// and 60 alone make a fifth of the divergence that 8 bits per row of the others
// leave.
const spike = 40

// spiked reports whether a tensor holds outliers.
func (r Range) spiked() bool { return r.RMS > 0 && max(-r.Low, r.High) > spike*r.RMS }

// Add widens a tensor's range to include values.
func (r *Ranges) Add(tensor string, values []float32) {
	seen := r.Tensors[tensor]
	for _, v := range values {
		seen.Low, seen.High = min(seen.Low, v), max(seen.High, v)
	}
	r.Tensors[tensor] = seen
}

// AddChannels widens a tensor's channels to include values of (head, row,
// element).
func (r *Ranges) AddChannels(tensor string, values []float32, heads, width int) {
	if r.Channels == nil {
		r.Channels = make(map[string][]float32)
	}
	seen := r.Channels[tensor]
	if seen == nil {
		seen = make([]float32, heads*width)
		r.Channels[tensor] = seen
	}
	rows := len(values) / (heads * width)
	for i, v := range values {
		channel := i/(rows*width)*width + i%width
		seen[channel] = max(seen[channel], v, -v)
	}
}

// headroom widens the observed range for 16-bit integers, which have resolution
// to spare: other texts exceed the range that calibration saw.
const headroom = 1.5

// find returns a tensor's range if it is valid.
func (r *Ranges) find(tensor string) (Range, error) {
	seen, known := r.Tensors[tensor]
	if !known || !(seen.Low <= 0 && seen.High >= 0) || math.IsInf(float64(seen.High)-float64(seen.Low), 0) {
		return seen, fmt.Errorf("model: %w: range of %s is %+v: calibrate the model again", ErrRanges, tensor, seen)
	}
	return seen, nil
}

// cacheEncoding returns the encoding of keys or values in 8 bits. It is
// symmetric around the middle integer, the only form that the hardware's own
// cache layout and its products of 16 with 8 bits support. Keys are rotated by
// their position, so their range is symmetric anyway.
func (r *Ranges) cacheEncoding(tensor string) (backend.Encoding, error) {
	seen, err := r.find(tensor)
	if err != nil {
		return backend.Encoding{}, err
	}
	return backend.Encoding{Scale: max(max(-seen.Low, seen.High)/127, quant.LeastScale), Offset: -128}, nil
}

// encoding returns the encoding of a tensor in type t. It represents zero
// exactly.
func (r *Ranges) encoding(tensor string, t backend.DataType) (backend.Encoding, error) {
	seen, err := r.find(tensor)
	if err != nil {
		return backend.Encoding{}, err
	}
	_, steps := backend.Encoding{}.Limits(t)
	low, high := float64(seen.Low), float64(seen.High)
	if t == backend.Ufixed16 {
		low, high = headroom*low, headroom*high
	}
	return spanning(low, high, steps), nil
}

// spanning returns an encoding of the numbers from low to high, including zero,
// in the given number of steps.
func spanning(low, high, steps float64) backend.Encoding {
	scale := float32((high - low) / steps)
	if !(scale >= quant.LeastScale) {
		scale = quant.LeastScale
	}
	return backend.Encoding{Scale: scale, Offset: int32(math.RoundToEven(low / float64(scale)))}
}

// unit16 encodes the numbers from 0 to 1 as the NPU encodes a sigmoid.
var unit16 = backend.Encoding{Scale: 1.0 / 65536}

// siluEncoding returns the encoding of x·σ(x) for all numbers of a gate's
// encoding. The minimum is at -1.27846.
func siluEncoding(gate backend.Encoding) backend.Encoding {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	_, steps := gate.Limits(backend.Ufixed16)
	low, high := float64(gate.Offset)*float64(gate.Scale), (steps+float64(gate.Offset))*float64(gate.Scale)
	return spanning(silu(max(low, -1.27846)), silu(high), steps)
}
