package qnn

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Encoding is a way to say what stored integers mean
// (Qnn_QuantizationEncoding_t).
type Encoding uint32

// The encodings. Real numbers are Scale × (stored + Offset) in all of them.
const (
	// ScaleOffset is one scale and offset for the whole tensor.
	ScaleOffset Encoding = 0
	// AxisScaleOffset is a scale and an offset per index along Axis.
	AxisScaleOffset Encoding = 1
	// BitsScaleOffset is ScaleOffset for values of Bits bits in their container.
	BitsScaleOffset Encoding = 2
	// BitsAxisScaleOffset is AxisScaleOffset for values of Bits bits.
	BitsAxisScaleOffset Encoding = 3
	// Block is a scale and an offset per block of BlockSizes.
	Block Encoding = 4
	// BlockwiseExpansion (LPBQ) multiplies the scale of an index along Axis
	// with a small integer of each of its BlocksPerAxis blocks.
	BlockwiseExpansion Encoding = 5
	// Vector is a codebook of vectors beside BitsAxisScaleOffset.
	Vector Encoding = 6
	// FloatBlock is Block with offsets that are real numbers.
	FloatBlock Encoding = 7
	// BitsAxisMapped is BitsAxisScaleOffset whose values go through Mapping. The
	// vendor's library 2.40 has it for Conv2d, Axis 3, 2 bits and MapExcludeZero.
	BitsAxisMapped Encoding = 8
	// BitsBlockMapped is Block for values of Bits bits that go through Mapping.
	// Library 2.40 takes it and computes as if there were no scales.
	BitsBlockMapped Encoding = 9
	// BlockwiseExpansionMapped is BlockwiseExpansion for values of Bits bits that
	// go through Mapping. Library 2.40 ignores its scales, too.
	BlockwiseExpansionMapped Encoding = 10
	// BitsFloatBlock is FloatBlock for values of Bits bits.
	BitsFloatBlock Encoding = 11
)

// Mapping says what number a stored integer stands for before it is scaled
// (Qnn_QuantizationEncodingMapping_t).
type Mapping uint32

// The mappings, told for 2 bits.
const (
	MapSymmetric   Mapping = 0 // -2 -1 0 1 stand for themselves
	MapPlusOne     Mapping = 1 // they stand for -1 0 1 2
	MapExcludeZero Mapping = 2 // they stand for -1.5 -0.5 0.5 1.5
)

// Quantization is what the stored integers of a tensor mean. Which fields count
// is a matter of Encoding.
type Quantization struct {
	Encoding Encoding
	// Bits of a value in its container, the others being copies of its sign or
	// zero. For the encodings named Bits... or ...Mapped and Vector.
	Bits uint32
	// Axis is the dimension that has a scale per index.
	Axis int32
	// Scales are positive: one, one per index along Axis, or one per block with
	// the block along the last dimension running fastest.
	Scales []float32
	// Offsets are added to stored integers; nil means that all are zero. An
	// offset is the negative of what others call a zero point.
	Offsets []int32
	// FloatOffsets take the place of Offsets in FloatBlock and BitsFloatBlock.
	FloatOffsets []float32
	// BlockSizes has the size of a block along each dimension.
	BlockSizes []uint32
	// BlocksPerAxis is the number of blocks of one index along Axis, and
	// BlockScaleBits the width of their integer scales, which are ordered
	// (index, block), for BlockwiseExpansion.
	BlocksPerAxis, BlockScaleBits uint32
	BlockScales                   []uint8
	// Mapping belongs to the encodings named ...Mapped.
	Mapping Mapping
	// Codebook belongs to Vector.
	Codebook Codebook
}

// Codebook is the shape of vector quantization.
type Codebook struct {
	RowsPerBlock, ColumnsPerBlock        uint32
	VectorDimension, VectorStride, Index uint8 // Index is in bits
}

// count is how many scales a tensor of these dims has.
func (q *Quantization) count(dims []uint32) (uint64, error) {
	switch q.Encoding {
	case ScaleOffset, BitsScaleOffset:
		return 1, nil
	case AxisScaleOffset, BitsAxisScaleOffset, BlockwiseExpansion, Vector, BitsAxisMapped, BlockwiseExpansionMapped:
		if q.Axis < 0 || int(q.Axis) >= len(dims) {
			return 0, fmt.Errorf("axis %d of %d dimensions: %w", q.Axis, len(dims), ErrQuantization)
		}
		return uint64(dims[q.Axis]), nil
	case Block, FloatBlock, BitsFloatBlock, BitsBlockMapped:
		if len(q.BlockSizes) != len(dims) {
			return 0, fmt.Errorf("%d block sizes for %d dimensions: %w", len(q.BlockSizes), len(dims), ErrQuantization)
		}
		n := uint64(1)
		for i, d := range dims {
			if q.BlockSizes[i] == 0 || d%q.BlockSizes[i] != 0 {
				return 0, fmt.Errorf("blocks of %v do not fill %v: %w", q.BlockSizes, dims, ErrQuantization)
			}
			n *= uint64(d / q.BlockSizes[i]) // at most the elements, which SizeBytes bounds
		}
		return n, nil
	}
	// Microscaling, which 2.40 knows, stands in no public header; its number is not known.
	return 0, fmt.Errorf("encoding %d: %w: %w", q.Encoding, ErrQuantization, errors.ErrUnsupported)
}

// check refuses what would make the library read past an array, or compute
// nonsense: it looks at none of it.
func (q *Quantization) check(dims []uint32) error {
	n, err := q.count(dims)
	if err != nil {
		return err
	}
	float := q.Encoding == FloatBlock || q.Encoding == BitsFloatBlock
	if uint64(len(q.Scales)) != n || !fits(q.Offsets, n, !float) || !fits(q.FloatOffsets, n, float) {
		return fmt.Errorf("%d scales, %d offsets and %d real offsets for %d: %w",
			len(q.Scales), len(q.Offsets), len(q.FloatOffsets), n, ErrQuantization)
	}
	if q.Mapping > MapExcludeZero {
		return fmt.Errorf("mapping %d: %w", q.Mapping, ErrQuantization)
	}
	for i, s := range q.Scales {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return fmt.Errorf("scale %d is %v: %w", i, s, ErrQuantization)
		}
	}
	expanded := q.Encoding == BlockwiseExpansion || q.Encoding == BlockwiseExpansionMapped
	if want := n * uint64(q.BlocksPerAxis); expanded && (want == 0 || uint64(len(q.BlockScales)) != want) {
		return fmt.Errorf("%d block scales for %d × %d: %w", len(q.BlockScales), n, q.BlocksPerAxis, ErrQuantization)
	}
	return nil
}

func fits[T any](list []T, n uint64, allowed bool) bool {
	return list == nil || allowed && uint64(len(list)) == n
}

// borrowed tells whether the library goes on reading the arrays of an encoding
// after a tensor was created. Version 2.40 copies neither sizes nor scales of float
// blocks, and once their memory held something else it ended in SIGFPE; of
// blockwise expansion it keeps a pointer, and refused a node of a layer of 896 by
// 4864 inputs whose scales were gone by then (addNode 6005, "Invalid Block expansion
// scales configuration"). The others behind a pointer are taken to be like that.
func (q *Quantization) borrowed() bool {
	if q == nil {
		return false
	}
	switch q.Encoding {
	case FloatBlock, BitsFloatBlock, BlockwiseExpansion, BlockwiseExpansionMapped, Vector, BitsAxisMapped, BitsBlockMapped:
		return true
	}
	return false
}

// encode fills in the C struct; k keeps the arrays that it points to.
func (q *Quantization) encode(c *cQuantizeParams, dims []uint32, k *keeper) error {
	if q == nil {
		c.definition, c.encoding = undefined, undefined
		return nil
	}
	if err := q.check(dims); err != nil {
		return err
	}
	c.definition, c.encoding = 1, uint32(q.Encoding)
	body := unsafe.Pointer(&c.union)
	switch q.Encoding {
	case ScaleOffset:
		*(*cScaleOffset)(body) = q.pairs()[0]
	case AxisScaleOffset:
		*(*cAxisScaleOffset)(body) = cAxisScaleOffset{axis: q.Axis, n: uint32(len(q.Scales)), pairs: keep(k, q.pairs())}
	case BitsScaleOffset:
		one := q.pairs()[0]
		*(*cBitsScaleOffset)(body) = cBitsScaleOffset{bits: q.Bits, scale: one.scale, offset: one.offset}
	case BitsAxisScaleOffset:
		*(*cBitsAxisScaleOffset)(body) = q.bitsAxis(k)
	case Block:
		*(*cBlockEncoding)(body) = cBlockEncoding{sizes: keep(k, clone(q.BlockSizes)), pairs: keep(k, q.pairs())}
	case BlockwiseExpansion:
		*(*uintptr)(body) = keep(k, []cBlockwiseExpansion{{
			axis: q.Axis, pairs: keep(k, q.pairs()), blocks: q.BlocksPerAxis, scaleBits: q.BlockScaleBits,
			scales: keep(k, clone(q.BlockScales)),
		}})
	case Vector:
		*(*uintptr)(body) = keep(k, []cVectorEncoding{{
			values: q.bitsAxis(k), rows: q.Codebook.RowsPerBlock, columns: q.Codebook.ColumnsPerBlock,
			dimension: q.Codebook.VectorDimension, stride: q.Codebook.VectorStride, index: q.Codebook.Index,
		}})
	case BitsAxisMapped, BitsBlockMapped, BlockwiseExpansionMapped:
		*(*uintptr)(body) = q.mapped(k)
	case FloatBlock:
		*(*cBlockEncoding)(body) = cBlockEncoding{sizes: keep(k, clone(q.BlockSizes)), pairs: keep(k, q.floatPairs())}
	case BitsFloatBlock:
		*(*cBitsFloatBlock)(body) = cBitsFloatBlock{
			bits: q.Bits, sizes: keep(k, clone(q.BlockSizes)), pairs: keep(k, q.floatPairs()),
		}
	}
	return nil
}

// mapped makes the struct of an encoding with a mapping, which the union points
// to.
func (q *Quantization) mapped(k *keeper) uintptr {
	mapping := uint32(q.Mapping)
	switch q.Encoding {
	case BitsAxisMapped:
		c := q.bitsAxis(k)
		return keep(k, []cBitsAxisMapped{{
			bits: c.bits, axis: c.axis, mapping: mapping, n: c.n, scales: c.scales, offsets: c.offsets,
		}})
	case BitsBlockMapped:
		return keep(k, []cBitsBlockMapped{{
			bits: q.Bits, mapping: mapping, sizes: keep(k, clone(q.BlockSizes)), pairs: keep(k, q.pairs()),
		}})
	}
	return keep(k, []cBlockwiseExpansionMapped{{
		bits: q.Bits, mapping: mapping, axis: q.Axis, pairs: keep(k, q.pairs()), blocks: q.BlocksPerAxis,
		scaleBits: q.BlockScaleBits, scales: keep(k, clone(q.BlockScales)),
	}})
}

func (q *Quantization) pairs() []cScaleOffset {
	pairs := make([]cScaleOffset, len(q.Scales))
	for i, s := range q.Scales {
		pairs[i].scale = s
		if q.Offsets != nil {
			pairs[i].offset = q.Offsets[i]
		}
	}
	return pairs
}

func (q *Quantization) floatPairs() []cFloatScaleOffset {
	pairs := make([]cFloatScaleOffset, len(q.Scales))
	for i, s := range q.Scales {
		pairs[i].scale = s
		if q.FloatOffsets != nil {
			pairs[i].offset = q.FloatOffsets[i]
		}
	}
	return pairs
}

func (q *Quantization) bitsAxis(k *keeper) cBitsAxisScaleOffset {
	c := cBitsAxisScaleOffset{bits: q.Bits, axis: q.Axis, n: uint32(len(q.Scales)), scales: keep(k, clone(q.Scales))}
	if q.Offsets != nil {
		c.offsets = keep(k, clone(q.Offsets))
	}
	return c
}

// keeper holds memory that C structs point to with plain numbers, which the
// garbage collector does not follow. It lives until the C call has returned.
type keeper []any

// keep returns the address of a slice that is not changed any more.
func keep[T any](k *keeper, list []T) uintptr {
	*k = append(*k, list)
	return uintptr(unsafe.Pointer(unsafe.SliceData(list)))
}

// clone makes sure that the memory is on the heap, which does not move.
func clone[T any](list []T) []T { return append([]T(nil), list...) }
