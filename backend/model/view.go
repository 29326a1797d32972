package model

import (
	"fmt"
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
	// long are the frequencies for contexts beyond original; nil where that
	// makes no difference.
	long     []float64
	original int
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
	list := slices.Clone(m.views)
	for i, v := range list {
		if v.long != nil && context > v.original {
			list[i].frequencies = v.long
		}
	}
	return list
}

// The places in Views.
const (
	mainView  = 0 // of all layers, or of those that see the whole text
	localView = 1 // of local layers, in models that have both kinds
)

// viewOf is the place in Views of what layer i sees.
func (m *Model) viewOf(i int) int {
	if m.config.Local != nil && m.config.Local[i] {
		return localView
	}
	return mainView
}

// makeViews lists what the layers of a model see. Factors that would make
// angles of no meaning are [ErrInvalid].
func (m *Model) makeViews() ([]View, error) {
	c := m.config
	first := View{
		Mask: "mask", Cos: "cos", Sin: "sin",
		frequencies: frequencies(c.RopeDim, c.RopeBase, c.RopeScale), magnitude: c.RopeMagnitude, original: c.OriginalContext,
	}
	var err error
	if m.global[ropeFactors] != nil {
		first.frequencies, err = divided(first.frequencies, m.global[ropeFactors])
	}
	if short, long := m.global[ropeShort], m.global[ropeLong]; short != nil && long != nil {
		if first.long, err = divided(first.frequencies, long); err == nil {
			first.frequencies, err = divided(first.frequencies, short)
		}
	} else if short != nil || long != nil {
		err = fmt.Errorf("model: %w: one of the rope factors for short and long texts is missing", ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	if c.Local == nil {
		first.Window = c.Window
		return []View{first}, nil
	}
	local := View{
		Mask: "mask_local", Cos: "cos_local", Sin: "sin_local", Window: c.Window,
		frequencies: frequencies(c.RopeDim, c.LocalRopeBase, 1), magnitude: 1,
	}
	return []View{mainView: first, localView: local}, nil
}

// frequencies are the angles per position of the pairs among n elements.
func frequencies(n int, base, scale float64) []float64 {
	f := make([]float64, n/2)
	for j := range f {
		f[j] = math.Pow(base, -2*float64(j)/float64(n)) / scale
	}
	return f
}

// divided divides each frequency by its factor of the file.
func divided(frequencies []float64, factors *weight) ([]float64, error) {
	values, err := factors.floats()
	if err != nil {
		return nil, err
	}
	for j, v := range values {
		if !(v > 0) {
			return nil, fmt.Errorf("model: %w: tensor %s: factor %d is %v", ErrInvalid, factors.name, j, v)
		}
		values[j] = frequencies[j] / v
	}
	return values, nil
}
