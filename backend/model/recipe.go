package model

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
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
	// Ranges are those of the activations around projections, where Linear or
	// Cache rounds them to integers.
	Ranges *Ranges
}

// Linear says how a projection multiplies.
type Linear struct {
	// Bits are those of a weight, 8 or 4, and Block is the number of inputs that
	// share a scale and an offset, 0 for all inputs of an output, without an
	// offset. Zero bits leave weights as they are. A matrix whose inputs are no
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
		Linear: Linear{Bits: 8, Activations: backend.Ufixed16}, Head: blocks8,
	},
	{
		Name: "w4a16", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 4, Block: 32}, Head: blocks8,
	},
	{
		Name: "w8a8", Weights: backend.Float16, Activations: backend.Float16, Cache: backend.Float16,
		Linear: Linear{Bits: 8, Activations: backend.Ufixed8}, Head: blocks8,
	},
}

// blocks8 are weights of 8 bits in blocks of 32, under float16 activations.
var blocks8 = Linear{Bits: 8, Block: 32}

// FindRecipe returns the recipe of that name, without ranges. An unknown name
// is [ErrRecipe].
func FindRecipe(name string) (Recipe, error) {
	names := make([]string, len(Recipes))
	for i, r := range Recipes {
		if names[i] = r.Name; r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("model: %w %q: known are %s", ErrRecipe, name, strings.Join(names, ", "))
}

// NeedsRanges tells whether graphs can be written only with [Recipe.Ranges].
func (r Recipe) NeedsRanges() bool {
	return r.Linear.Activations != 0 || r.head().Activations != 0 || r.Cache.Fixed()
}

// head is how the projection to the vocabulary multiplies.
func (r Recipe) head() Linear {
	if r.Head == (Linear{}) {
		return r.Linear
	}
	return r.Head
}

// check refuses what the graphs of this package cannot express.
func (r Recipe) check() error {
	if !r.Activations.Float() || r.Weights != r.Activations || r.Cache != r.Activations {
		return fmt.Errorf("model: recipe %q: weights %v, activations %v, cache %v: one floating-point type wanted: %w",
			r.Name, r.Weights, r.Activations, r.Cache, errors.ErrUnsupported)
	}
	for _, l := range []Linear{r.Linear, r.head()} {
		known := l.Bits == 8 || l.Bits == 4
		if l != (Linear{}) && (!known || l.Block < 0 || r.Activations != backend.Float16 || l.Block != 0 && l.Activations != 0) {
			return fmt.Errorf("model: recipe %q: projections %+v under %v: %w", r.Name, l, r.Activations, errors.ErrUnsupported)
		}
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
}

// Range is the least and the largest number that a tensor held.
type Range struct {
	Low  float32 `json:"low"`
	High float32 `json:"high"`
}

// Add widens a tensor's range to hold values.
func (r *Ranges) Add(tensor string, values []float32) {
	seen := r.Tensors[tensor]
	for _, v := range values {
		seen.Low, seen.High = min(seen.Low, v), max(seen.High, v)
	}
	r.Tensors[tensor] = seen
}

// headroom is how much wider than the range that was seen integers of 16 bits
// reach: they have steps to spare, and a text will hold what calibration did
// not.
const headroom = 1.5

// encoding is that of a tensor in type t. It holds zero exactly.
func (r *Ranges) encoding(tensor string, t backend.DataType) (backend.Encoding, error) {
	seen, known := r.Tensors[tensor]
	if !known || !(seen.Low <= 0 && seen.High >= 0) || math.IsInf(float64(seen.High)-float64(seen.Low), 0) {
		return backend.Encoding{}, fmt.Errorf("model: %w: that of %s is %+v: calibrate the model again", ErrRanges, tensor, seen)
	}
	_, steps := backend.Encoding{}.Limits(t)
	low, high := float64(seen.Low), float64(seen.High)
	if t == backend.Ufixed16 {
		low, high = headroom*low, headroom*high
	}
	scale := float32((high - low) / steps)
	if !(scale >= leastScaleOfFixed) {
		scale = leastScaleOfFixed
	}
	return backend.Encoding{Scale: scale, Offset: int32(math.RoundToEven(low / float64(scale)))}, nil
}

// leastScaleOfFixed is a step that no activation needs to be finer than: a
// normal number in every type that hardware multiplies scales in.
const leastScaleOfFixed = 1e-7
