package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/mapped"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// fillSteps converts all rows into integers of 8 or fewer bits and the scales
// that they were rounded with, on all cores.
func (w *weight) fillSteps(dst []byte, steps []backend.Step, e backend.Encoding) error {
	if len(dst) != w.rows*w.columns || len(steps)%w.rows != 0 {
		return fmt.Errorf("model: tensor %s has %d elements, not %d, in %d steps", w.name, w.rows*w.columns, len(dst), len(steps))
	}
	parts := min(runtime.GOMAXPROCS(0), 1+w.rows*w.columns/parallelElements, w.rows)
	errs := make([]error, parts)
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { errs[i] = w.fillStepRows(dst, steps, e, i*w.rows/parts, (i+1)*w.rows/parts) })
	}
	group.Wait()
	for _, err := range errs { // the one of the first rows
		if err != nil {
			return err
		}
	}
	return nil
}

// fillStepRows converts the rows [first,end).
func (w *weight) fillStepRows(dst []byte, steps []backend.Step, e backend.Encoding, first, end int) error {
	raw := make([]byte, 4*w.columns)
	values := make([]float32, w.columns)
	perRow := len(steps) / w.rows
	block := w.columns / perRow
	for row := first; row < end; row++ {
		if err := w.convert(raw, backend.Float32, w.source(row), values); err != nil {
			return err
		}
		// Their products are float16, whatever the integers: inf soon, and then NaN.
		if i := quant.FirstBeyond(values, largest(backend.Float16)); i >= 0 {
			return w.refuse(w.source(row)*w.columns+i, values[i], backend.Float16)
		}
		lines, err := w.lines(w.source(row), e)
		if err != nil {
			return err
		}
		if e.Multiplied() {
			steps[row] = roundMultiplied(dst[row*w.columns:][:w.columns], values, e)
			continue
		}
		for i := range perRow {
			from, to := values[i*block:][:block], dst[row*w.columns+i*block:][:block]
			if e.Grain == backend.PerRow {
				steps[row*perRow+i] = roundSymmetric(to, from, e)
				continue
			}
			line := spanned(from, e)
			if lines != nil {
				line = lines[i]
			}
			steps[row*perRow+i] = roundToLine(to, from, line, e)
		}
	}
	return nil
}

// lines are those of a row of the file, where its values lie on lines of e's
// blocks; else nil.
func (w *weight) lines(row int, e backend.Encoding) ([]quant.Line, error) {
	bits := w.format.LineBits()
	if e.Block != quant.LineSize || bits == 0 || e.Bits != 0 && e.Bits < bits {
		return nil, nil
	}
	stride := len(w.data) / w.total
	lines := make([]quant.Line, w.columns/quant.LineSize)
	err := mapped.Guard(func() error { return quant.Lines(lines, w.data[row*stride:(row+1)*stride], w.format) })
	for i := range lines {
		lines[i].Minimum *= w.scale
		lines[i].Scale *= w.scale
	}
	return lines, err
}

// spanned is the line from the least to the largest of values.
func spanned(values []float32, e backend.Encoding) quant.Line {
	low, high := e.Limits(backend.Sfixed8)
	first, last := slices.Min(values), slices.Max(values)
	return quant.Line{Minimum: first, Scale: float32((float64(last) - float64(first)) / (high - low))}
}

// roundToLine rounds values to the nearest points of a line. Its integers lie as
// near to zero as their range allows: the vendor's library computes a block as
// the sum of integers and of its offset, whose rounding in float16 a large offset
// would leave in the difference (1.7 % of a product at 120, 0.04 % at 0).
func roundToLine(dst []byte, values []float32, line quant.Line, e backend.Encoding) backend.Step {
	low, high := e.Limits(backend.Sfixed8)
	if !(line.Scale >= quant.LeastStep) { // one value, or as good as
		clear(dst)
		scale := max(float32(math.Abs(float64(line.Minimum))), quant.LeastStep)
		return backend.Step{Scale: scale, Offset: line.Minimum / scale}
	}
	first, scale := float64(line.Minimum), float64(line.Scale)
	points := math.RoundToEven((float64(slices.Max(values)) - first) / scale)
	least := min(max(math.RoundToEven(first/scale), low), max(high-points, low))
	for i, v := range values {
		q := least + math.RoundToEven((float64(v)-first)/scale)
		dst[i] = byte(int8(min(max(q, low), high)))
	}
	return backend.Step{Scale: line.Scale, Offset: float32(first/scale - least)}
}

// roundSymmetric rounds values to integers around zero; the largest magnitude
// becomes the largest integer.
func roundSymmetric(dst []byte, values []float32, e backend.Encoding) backend.Step {
	_, high := e.Limits(backend.Sfixed8)
	scale := quant.SymmetricStep(values, high)
	for i, v := range values {
		q := math.RoundToEven(float64(v) / float64(scale))
		dst[i] = byte(int8(min(max(q, -high), high)))
	}
	return backend.Step{Scale: scale}
}

// roundMultiplied rounds a row to small integers times a number of their block.
func roundMultiplied(dst []byte, values []float32, e backend.Encoding) backend.Step {
	multiples := make([]uint8, len(values)/e.Block)
	step := quant.FitMultiples(multiples, values, e.Block)
	for i, v := range values {
		m := float64(multiples[i/e.Block])
		q := math.RoundToEven(float64(v) / (m * float64(step)))
		dst[i] = byte(int8(m * min(max(q, quant.LeastMultiplied), quant.MostMultiplied)))
	}
	return backend.Step{Scale: step}
}

// fillBias converts a vector into integers with the steps of a matrix's
// products with numbers of one scale.
func (w *weight) fillBias(dst []byte, steps []backend.Step, matrix *weight, e backend.Encoding, scale float32) error {
	values, err := w.floats()
	if err != nil {
		return err
	}
	elements := make([]byte, matrix.rows*matrix.columns)
	if err := matrix.fillSteps(elements, steps, e); err != nil {
		return err
	}
	for i, v := range values {
		steps[i].Scale *= scale
		q := math.RoundToEven(v / float64(steps[i].Scale))
		if math.Abs(q) > math.MaxInt32 {
			return fmt.Errorf("model: %w: tensor %s: element %d is %v, beyond what 32 bits hold in steps of %v", ErrInvalid, w.name, i, v, steps[i].Scale)
		}
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(q)))
	}
	return nil
}
