package cpu

import (
	"encoding/binary"
	"math"

	"github.com/sdnpu/sdnpu/backend"
)

// roundFixed makes every element the nearest number that the tensor can hold,
// of two equally near ones that of the even integer. NaN becomes the least.
func roundFixed(t *backend.Tensor) func(w workers, x []float32) {
	scale, offset := float64(t.Encoding.Scale), float64(t.Encoding.Offset)
	low, high := t.Encoding.Limits(t.Type)
	low, high = low+offset, high+offset
	return func(w workers, x []float32) {
		w.each(len(x), grain, func(lo, hi int) {
			part := x[lo:hi]
			for i, v := range part {
				n := math.RoundToEven(float64(v) / scale)
				if !(n > low) {
					n = low
				}
				part[i] = float32(min(n, high) * scale)
			}
		})
	}
}

// load reads a bound tensor's elements.
func (g *graph) load(w workers, i int, src []byte) {
	t := &g.tensors[i]
	decode(w, g.memory[i], src, t.Type)
	if t.Type.Fixed() {
		dequantize(w, g.memory[i], t, nil)
	}
}

// store writes a result's elements where they are bound.
func (g *graph) store(w workers, i int, dst []byte) {
	t := &g.tensors[i]
	if !t.Type.Fixed() {
		encode(w, dst, g.memory[i], t.Type)
		return
	}
	size, scale, offset := t.Type.Size(), float64(t.Encoding.Scale), float64(t.Encoding.Offset)
	w.each(len(g.memory[i]), grain, func(lo, hi int) {
		for j, v := range g.memory[i][lo:hi] { // rounded when it was computed
			n := int64(math.RoundToEven(float64(v)/scale) - offset)
			at := dst[(lo+j)*size:]
			if size == 1 {
				at[0] = byte(n)
			} else {
				binary.LittleEndian.PutUint16(at, uint16(n))
			}
		}
	})
}

// dequantize makes decoded integers the numbers that they mean.
func dequantize(w workers, x []float32, t *backend.Tensor, steps []backend.Step) {
	size := len(x) // elements that share a step
	if len(steps) == 0 {
		steps = []backend.Step{{Scale: t.Encoding.Scale, Offset: float32(t.Encoding.Offset)}}
	} else {
		size = len(x) / len(steps)
	}
	w.each(len(x), grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s := steps[i/size]
			x[i] = float32((float64(x[i]) + float64(s.Offset)) * float64(s.Scale))
		}
	})
}

// storeSteps writes steps as an image has them.
func storeSteps(steps []backend.Step) []byte {
	b := make([]byte, 0, stepSize*len(steps))
	for _, s := range steps {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s.Scale))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s.Offset))
	}
	return b
}

func loadSteps(b []byte) []backend.Step {
	steps := make([]backend.Step, len(b)/stepSize)
	for i := range steps {
		steps[i].Scale = math.Float32frombits(binary.LittleEndian.Uint32(b[stepSize*i:]))
		steps[i].Offset = math.Float32frombits(binary.LittleEndian.Uint32(b[stepSize*i+4:]))
	}
	return steps
}
