package hexagon

import (
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// quantization is a tensor's encoding as QNN has it; nil for types that need
// none. steps are a constant's.
func quantization(t *backend.Tensor, steps []backend.Step) *qnn.Quantization {
	e := t.Encoding
	if !t.Type.Fixed() {
		return nil
	}
	q := &qnn.Quantization{Encoding: qnn.ScaleOffset, Bits: uint32(e.Bits)}
	if e.Grain == backend.PerTensor {
		q.Scales, q.Offsets = []float32{e.Scale}, []int32{e.Offset}
		if e.Bits != 0 {
			q.Encoding = qnn.BitsScaleOffset
		}
		return q
	}
	for _, s := range steps {
		q.Scales = append(q.Scales, s.Scale)
	}
	if e.Multiplied() {
		return nil // [multiples] makes it, of the elements
	}
	if e.Grain == backend.PerRow { // axis 0; its offsets are zero
		q.Encoding = qnn.AxisScaleOffset
		if e.Bits != 0 {
			q.Encoding = qnn.BitsAxisScaleOffset
		}
		return q
	}
	if q.Bits == 0 {
		q.Bits = uint32(8 * t.Type.Size())
	}
	q.Encoding, q.BlockSizes = qnn.BitsFloatBlock, []uint32{1, uint32(e.Block)}
	for _, s := range steps {
		q.FloatOffsets = append(q.FloatOffsets, s.Offset)
	}
	return q
}
