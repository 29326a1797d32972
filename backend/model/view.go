package model

import (
	"math"
	"slices"
)

// View is what a kind of layers sees of the text: which positions, and turned
// by which angles. Most models have one, those with local layers two. Each has
// ports of its own; a block's graph has those that its layers read.
type View struct {
	// Mask, Cos and Sin name the ports.
	Mask, Cos, Sin string
	// Window limits what a row at position p sees to the Window positions from
	// p−Window+1 to p, its own. Zero does not limit it.
	Window int

	frequencies []float64 // angle per position of each pair
	magnitude   float64   // of cosines and sines, 1 in most models
}

// Oldest is the first position that a row at the given one sees.
func (v View) Oldest(position int32) int {
	if v.Window == 0 {
		return 0
	}
	return max(0, int(position)-v.Window+1)
}

// Rope writes the cosines and sines of the positions' angles, each
// len(positions)×RopeDim/2 elements of the recipe's activation type. It panics
// when cos or sin is shorter. Angles are computed in float64 and rounded once.
func (v View) Rope(cos, sin []byte, positions []int32, r Recipe) {
	half := len(v.frequencies)
	for i, position := range positions {
		for j, frequency := range v.frequencies {
			s, c := math.Sincos(float64(position) * frequency)
			put(cos, i*half+j, c*v.magnitude, r.Activations)
			put(sin, i*half+j, s*v.magnitude, r.Activations)
		}
	}
}

// Views lists the model's views for texts of up to context tokens: some models
// turn by other angles when they are to hold long texts. The first one's ports
// are called mask, cos and sin in every model; names, windows and their number
// do not depend on context.
func (m *Model) Views(context int) []View {
	return slices.Clone(m.views)
}

// viewOf is the place in Views of what layer i sees.
func (m *Model) viewOf(i int) int { return 0 }

// views lists what the layers of a model see.
func views(c Config) []View {
	return []View{{Mask: "mask", Cos: "cos", Sin: "sin", frequencies: frequencies(c), magnitude: 1}}
}

// frequencies are the angles per position of the pairs of a head.
func frequencies(c Config) []float64 {
	f := make([]float64, c.RopeDim/2)
	for j := range f {
		f[j] = math.Pow(c.RopeBase, -2*float64(j)/float64(c.RopeDim))
	}
	return f
}
