package model

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// Recipe says in which types a graph computes. It is data: what it asks for is
// written by the same code for every family.
type Recipe struct {
	// Name is how a user selects the recipe.
	Name string
	// Weights are constants, Activations everything that flows between the
	// operators, Cache the keys and values that leave and enter a block.
	Weights, Activations, Cache backend.DataType
	// Linear is how projections multiply; zero means in the types above. Head is
	// the same of the projection to the vocabulary; zero means as Linear.
	Linear, Head Linear
	// Sensitive is how those projections multiply that a rounding costs most: the
	// values' and those whose inputs or results hold numbers far beyond the rest,
	// as [Ranges] say. Zero means as Linear.
	Sensitive Linear
	// FixedGate keeps what lies between the projections of a feed-forward network
	// in Linear's Activations, 16-bit integers, where the family's gate has such a
	// form and none of its projections is sensitive. The NPU takes a third less time for a layer of 32 rows than with
	// float16 in between (adapters/estimate/testdata).
	FixedGate bool
	// Ranges are those of the activations around projections, where Linear or
	// Cache rounds them to integers.
	Ranges *Ranges
}

// Linear says how a projection multiplies.
type Linear struct {
	// Bits are those of a weight, 8 or 4, and Block is the number of inputs that
	// share a scale and an offset, 0 for all inputs of an output, without an
	// offset. Zero bits leave weights as they are. Under activations of integers
	// the scale of a block of 4 bits is a whole multiple of its output's, without
	// an offset ([backend.Encoding.Multiplied]). A matrix whose inputs are no
	// whole blocks has 8 bits and a scale for each output.
	Bits, Block int
	// Activations is the type of inputs and results, to and from which the
	// recipe's own is converted. Zero leaves them as they are.
	Activations backend.DataType
}

// encoding is that of a matrix's weights.
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

// Recipes lists the known recipes, the usual one first.
var Recipes = []Recipe{
	{Name: "f16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16},
	{Name: "f32", Weights: backend.Float32, Activations: backend.Float32, Cache: backend.Float32},
	{ // blocks with offsets hold the weights of Q8_0, Q4_0, Q4_1 and Q4_K as they are
		Name: "w8", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: blocks8,
	},
	{ // choices between neighbours of a vocabulary need a finer head than the rest
		Name: "w8a16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 8, Activations: backend.Ufixed16}, Head: blocks8, Sensitive: blocks8, FixedGate: true,
	},
	{
		Name: "w4a16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: blocks4, Head: blocks8,
	},
	{ // 4 bits under integers; what they would spoil keeps blocks with real scales
		Name: "w4a16-lpbq", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 4, Block: 32, Activations: backend.Ufixed16}, Head: blocks8, Sensitive: blocks4, FixedGate: true,
	},
	{
		Name: "w8a8", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 8, Activations: backend.Ufixed8}, Head: blocks8, Sensitive: blocks8,
	},
}

// blocks8 and blocks4 are weights of 8 and 4 bits in blocks of 32, under float16
// activations.
var (
	blocks8 = Linear{Bits: 8, Block: 32}
	blocks4 = Linear{Bits: 4, Block: 32}
)

// SmallCache ends the name of a recipe that keeps keys and values in 8 bits:
// "w8a16+kv8" is w8a16 with half the cache. Any recipe of float16 can have it.
const SmallCache = "+kv8"

// FindRecipe returns the recipe of that name, without ranges. An unknown name
// is [ErrRecipe].
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
	return Recipe{}, fmt.Errorf("model: %w %.80q: known are %s, those of 16 bits and less with %s behind them too",
		ErrRecipe, name, strings.Join(names, ", "), SmallCache)
}

// NeedsRanges tells whether graphs can be written only with [Recipe.Ranges].
func (r Recipe) NeedsRanges() bool {
	return r.Linear.Activations != 0 || r.RoundsHead() || r.Cache.Fixed()
}

// RoundsHead tells whether the head's graph needs ranges.
func (r Recipe) RoundsHead() bool { return r.head().Activations != 0 }

// Multiples is [Rounded].Block of the recipe's matrices.
func (r Recipe) Multiples() int {
	if r.Linear.Activations == 0 {
		return 0
	}
	return r.Linear.Block
}

// compensated tells whether matrices are of a form that [Ranges.Rounded] holds.
func compensated(l Linear) bool { return l.Bits == 8 && l.Block == 0 || l.Activations != 0 }

// head is how the projection to the vocabulary multiplies.
func (r Recipe) head() Linear {
	if r.Head == (Linear{}) {
		return r.Linear
	}
	return r.Head
}

// check refuses what the graphs of this package cannot express.
func (r Recipe) check() error {
	small := r.Cache == backend.Ufixed8 && r.Activations == backend.Float16
	if !r.Activations.Float() || r.Weights != r.Activations || r.Cache != r.Activations && !small {
		return fmt.Errorf("model: recipe %q: weights %v, activations %v, cache %v: one floating-point type wanted, or a cache of u8 under f16: %w",
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

// Ranges holds what activations of a model were seen to be, by the names of the
// tensors in its graphs.
type Ranges struct {
	Tensors map[string]Range
	// Channels are the largest magnitudes of each element of keys and values,
	// (head, element), by the names of [NewKey] and [NewValue].
	Channels map[string][]float32
	// Rounded are the layers' matrices as integers of 8 bits with a step for each
	// row, where calibration rounded them; nil where each is the nearest.
	Rounded *Rounded
}

// Rounded gives matrices that calibration rounded. Another process that is sent
// one gets all but Codes, which it makes again of the file or the content.
type Rounded struct {
	// ID names their content, Constants them.
	ID        string
	Constants []string
	// Block is the number of inputs that share a multiple of 4-bit integers
	// ([Recipe.Multiples]), 0 for integers of 8 bits.
	Block int
	// File is where the content lies; where it lies nowhere, it is in Content.
	File    string
	Content []byte
	// Codes returns a matrix by its constant's name, (row, column), whose bytes
	// stay as they are and are not changed.
	Codes func(constant string) ([]byte, error)
}

// Range is the least and the largest number that a tensor held, and the root of
// the mean of their squares, 0 where nobody took it.
type Range struct {
	Low  float32 `json:"low"`
	High float32 `json:"high"`
	RMS  float32 `json:"rms,omitempty"`
}

// spike is how far the largest number of a tensor may stand above its root mean
// square before steps that reach it are too coarse for the others: the first token
// of each text makes single channels of some projections hundreds of times larger
// than the rest. Of SmolLM2-135M's 210 projections 36 are beyond it, its 30 ways
// down among them. Integers of 16 bits around all projections cost it a divergence
// of 2.5e-3 nats, without those nine that are beyond 100 1e-5. Their weights come
// in blocks, because such a number multiplies the errors of its weights as much:
// the eight ways down between 40 and 60 alone make a fifth of the divergence that
// 8 bits for each row of the others leave.
const spike = 40

// spiked tells whether a tensor holds numbers far beyond the rest.
func (r Range) spiked() bool { return r.RMS > 0 && max(-r.Low, r.High) > spike*r.RMS }

// Add widens a tensor's range to hold values.
func (r *Ranges) Add(tensor string, values []float32) {
	seen := r.Tensors[tensor]
	for _, v := range values {
		seen.Low, seen.High = min(seen.Low, v), max(seen.High, v)
	}
	r.Tensors[tensor] = seen
}

// AddChannels widens a tensor's channels to hold values of (head, row, element).
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

// headroom is how much wider than the range that was seen integers of 16 bits
// reach: they have steps to spare, and a text will hold what calibration did
// not.
const headroom = 1.5

// find is a tensor's range, if it is one.
func (r *Ranges) find(tensor string) (Range, error) {
	seen, known := r.Tensors[tensor]
	if !known || !(seen.Low <= 0 && seen.High >= 0) || math.IsInf(float64(seen.High)-float64(seen.Low), 0) {
		return seen, fmt.Errorf("model: %w: that of %s is %+v: calibrate the model again", ErrRanges, tensor, seen)
	}
	return seen, nil
}

// cacheEncoding is that of keys or values in 8 bits: symmetric around the middle
// integer, the only form that the hardware's own cache layout and its products
// of 16 with 8 bits take. Keys are turned by their position, so their range is
// as wide on both sides anyway.
func (r *Ranges) cacheEncoding(tensor string) (backend.Encoding, error) {
	seen, err := r.find(tensor)
	if err != nil {
		return backend.Encoding{}, err
	}
	return backend.Encoding{Scale: max(max(-seen.Low, seen.High)/127, quant.LeastStep), Offset: -128}, nil
}

// encoding is that of a tensor in type t. It holds zero exactly.
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

// spanning encodes the numbers from low to high, zero among them, in so many
// steps.
func spanning(low, high, steps float64) backend.Encoding {
	scale := float32((high - low) / steps)
	if !(scale >= quant.LeastStep) {
		scale = quant.LeastStep
	}
	return backend.Encoding{Scale: scale, Offset: int32(math.RoundToEven(low / float64(scale)))}
}

// unit16 encodes the numbers from 0 to 1 as the NPU gives a sigmoid.
var unit16 = backend.Encoding{Scale: 1.0 / 65536}

// siluEncoding spans x·σ(x) of all that a gate's encoding holds. The least of
// it lies at -1.27846.
func siluEncoding(gate backend.Encoding) backend.Encoding {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	_, steps := gate.Limits(backend.Ufixed16)
	low, high := float64(gate.Offset)*float64(gate.Scale), (steps+float64(gate.Offset))*float64(gate.Scale)
	return spanning(silu(max(low, -1.27846)), silu(high), steps)
}
