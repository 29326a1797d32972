package model

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// Shadow is the form of one projection of a recipe with [Recipe.Shadow], as calibration has
// chosen it. The input of a projection is rounded to integers, which clips outliers. In the hot
// channels, a second product, which is called the shadow, multiplies what rounding and clipping
// have removed from the input. The result of the projection is the sum of the first product and
// the shadow.
type Shadow struct {
	// Bits is the number of bits of the input and of the result of the first product: 8 or
	// 16. The shadow always has 16 bits.
	Bits int `json:"bits"`
	// Clip is the range to which the input of the first product is clipped.
	Clip Range `json:"clip"`
	// Hot lists the channels that the shadow multiplies, in ascending order. If Hot is
	// empty, the projection has no shadow.
	Hot []int `json:"hot,omitempty"`
	// Rest is the range of the shadow's input: of what rounding and clipping have removed from
	// the hot channels.
	Rest Range `json:"rest,omitzero"`
	// Main is the range of the first product's results, and Warm that of the shadow's results.
	Main Range `json:"main"`
	Warm Range `json:"warm,omitzero"`
	// Error is the squared error of the result divided by the squared result: the mean over the
	// rows of the calibration texts. Error is only reported: it changes no graph.
	Error float32 `json:"error"`
}

// check returns an error unless the form is valid for a projection with the given number of
// channels.
func (s Shadow) check(channels int) error {
	if s.Bits != 8 && s.Bits != 16 {
		return fmt.Errorf("the form has %d bits: want 8 or 16", s.Bits)
	}
	previous := -1
	for _, c := range s.Hot {
		if c <= previous || c >= channels {
			return fmt.Errorf("hot channel %d after %d: want ascending channels below %d", c, previous, channels)
		}
		previous = c
	}
	for _, r := range []Range{s.Clip, s.Rest, s.Main, s.Warm} {
		if !r.valid() {
			return fmt.Errorf("the form has the range %+v, which is not valid", r)
		}
	}
	return nil
}

// shadowed multiplies a tensor by a matrix as project does, in the form that calibration
// has chosen for the projection.
func (w *writer) shadowed(name string, x backend.TensorID, matrix, bias *weight) backend.TensorID {
	integers, shadow := w.products(name, x, matrix, bias)
	if integers < 0 {
		return -1
	}
	main := func(name string) backend.TensorID { return w.Dequantize(name, integers, w.recipe.Activations) }
	switch s := w.recipe.Ranges.Shadows[name]; {
	case w.hostShadowed(name, s):
		return w.hostShadow(name, x, matrix, s, main)
	case shadow < 0:
		return main(name)
	}
	return w.add(name, main(name+"_main"), w.Dequantize(name+"_shadow", shadow, w.recipe.Activations))
}

// products returns the integers of the first product of a projection and of its shadow. If the
// projection has no shadow on the device, shadow is -1.
func (w *writer) products(name string, x backend.TensorID, matrix, bias *weight) (main, shadow backend.TensorID) {
	s, known := w.recipe.Ranges.Shadows[name]
	if !known {
		w.Fail(fmt.Errorf("model: %w: the form of the projection %s is missing: calibrate the model again", ErrRanges, name))
		return -1, -1
	}
	if err := s.check(matrix.columns); err != nil {
		w.Fail(fmt.Errorf("model: %w: projection %s: %w: calibrate the model again", ErrRanges, name, err))
		return -1, -1
	}
	t := activationType(s.Bits)
	e, b := s.Clip.Encoding(t), backend.TensorID(-1)
	if bias != nil {
		b = w.encodedBias(w.projections, matrix, bias, e.Scale)
	}
	in := w.roundedTo(x, t, e)
	main = w.EncodedFullyConnected(name+"_q", in, w.encodedWeight(w.projections, matrix), b, s.Main.Encoding(t))
	if len(s.Hot) == 0 || w.hostShadowed(name, s) {
		return main, -1
	}
	rest := w.rest(x, in, s.Rest.Encoding(backend.Ufixed16))
	return main, w.EncodedFullyConnected(name+"_shadow_q", w.channels(rest, s.Hot), w.hotWeight(matrix, s.Hot), -1, s.Warm.Encoding(backend.Ufixed16))
}

// activationType returns the type of the input and the result of a product with the given
// number of bits.
func activationType(bits int) backend.DataType {
	if bits == 16 {
		return backend.Ufixed16
	}
	return backend.Ufixed8
}

// derived identifies a tensor that is computed from another tensor and shared by several
// projections.
type derived struct {
	from     backend.TensorID
	t        backend.DataType
	encoding backend.Encoding
	channels string
}

// once returns the tensor that the function `write` has written for a key. once calls
// `write` only for the first use of a key, with an unused name.
func (w *writer) once(key derived, suffix string, write func(name string) backend.TensorID) backend.TensorID {
	id, known := w.derived[key]
	if !known {
		id = write(fmt.Sprintf("%s_%s%d", w.Name(key.from), suffix, len(w.derived)))
		w.derived[key] = id
	}
	return id
}

// roundedTo returns x rounded to integers.
func (w *writer) roundedTo(x backend.TensorID, t backend.DataType, e backend.Encoding) backend.TensorID {
	return w.once(derived{from: x, t: t, encoding: e}, "q", func(name string) backend.TensorID { return w.Quantize(name, x, t, e) })
}

// rest returns what rounding and clipping have removed from x, in 16-bit integers.
func (w *writer) rest(x, integers backend.TensorID, e backend.Encoding) backend.TensorID {
	return w.once(derived{from: integers, t: backend.Ufixed16, encoding: e}, "rest", func(name string) backend.TensorID {
		kept := w.Dequantize(name+"_kept", integers, w.recipe.Activations)
		return w.Quantize(name, w.Apply(name+"_removed", backend.Subtract, []backend.TensorID{x, kept}), backend.Ufixed16, e)
	})
}

// channels returns the hot channels of the tensor x, which holds integers.
func (w *writer) channels(x backend.TensorID, hot []int) backend.TensorID {
	return w.once(derived{from: x, channels: fmt.Sprint(hot)}, "hot", func(name string) backend.TensorID { return w.Gather(name, x, hot) })
}

// hotWeight returns a constant with the 8-bit integers of the hot channels of a matrix.
func (w *writer) hotWeight(matrix *weight, hot []int) backend.TensorID {
	e := w.projections.encoding(matrix)
	whole := w.model.encodedValues(matrix, e, w.codesOf(w.projections))
	rows, columns := matrix.rows, matrix.columns
	values := backend.Values{
		ID: fmt.Sprintf("%s channels %v", whole.ID, hot),
		FillScaled: func(dst []byte, scales []backend.ScaleOffset) error {
			all := make([]byte, rows*columns)
			if err := whole.FillScaled(all, scales); err != nil {
				return err
			}
			for row := range rows {
				for i, c := range hot {
					dst[row*len(hot)+i] = all[row*columns+c]
				}
			}
			return nil
		},
	}
	return w.EncodedConstant(matrix.label()+"_hot", backend.Sfixed8, e, values, rows, len(hot))
}
