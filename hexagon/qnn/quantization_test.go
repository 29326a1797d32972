package qnn

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// everyEncoding returns one valid quantization of a [4,24] tensor per encoding.
func everyEncoding(rng *rand.Rand) []*Quantization {
	const rows, blocks = 4, 3
	all := []*Quantization{
		{Encoding: ScaleOffset},
		{Encoding: AxisScaleOffset},
		{Encoding: BitsScaleOffset, Bits: 4},
		{Encoding: BitsAxisScaleOffset, Bits: 4},
		{Encoding: Block, BlockSizes: []uint32{1, 8}},
		{Encoding: BlockwiseExpansion, BlocksPerAxis: blocks, BlockScaleBits: 4, BlockScales: make([]uint8, rows*blocks)},
		{Encoding: Vector, Bits: 4, Codebook: Codebook{1, 24, 2, 1, 6}},
		{Encoding: FloatBlock, BlockSizes: []uint32{1, 8}},
		{Encoding: BitsFloatBlock, Bits: 4, BlockSizes: []uint32{1, 8}},
	}
	for _, q := range all {
		n, err := q.count([]uint32{rows, 24})
		if err != nil {
			panic(err)
		}
		for range n {
			q.Scales = append(q.Scales, 0.1+rng.Float32())
			if q.Encoding == FloatBlock || q.Encoding == BitsFloatBlock {
				q.FloatOffsets = append(q.FloatOffsets, rng.Float32())
			} else {
				q.Offsets = append(q.Offsets, rng.Int32N(256)-128)
			}
		}
		for i := range q.BlockScales {
			q.BlockScales[i] = uint8(1 + rng.IntN(16))
		}
	}
	return all
}

// decodeQuantization reads the C struct back in a slow and simple way.
func decodeQuantization(t *testing.T, c *cQuantizeParams, dims []uint32) *Quantization {
	q := &Quantization{Encoding: Encoding(c.encoding)}
	body := unsafe.Pointer(&c.union)
	word := func(p unsafe.Pointer, offset int) uint32 { return *(*uint32)(unsafe.Add(p, offset)) }
	at := func(p unsafe.Pointer, offset int) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Add(p, offset)) }
	words := func(p unsafe.Pointer, n, stride int) (list []uint32) {
		for i := range n {
			list = append(list, word(p, 4*i*stride))
		}
		return list
	}
	floats := func(list []uint32) (f []float32) {
		for _, w := range list {
			f = append(f, math.Float32frombits(w))
		}
		return f
	}
	ints := func(list []uint32) (f []int32) {
		for _, w := range list {
			f = append(f, int32(w))
		}
		return f
	}
	pairs := func(p unsafe.Pointer, n int) {
		q.Scales, q.Offsets = floats(words(p, n, 2)), ints(words(unsafe.Add(p, 4), n, 2))
	}
	bitsAxis := func(p unsafe.Pointer) {
		n := int(word(p, 8))
		q.Bits, q.Axis, q.Scales, q.Offsets = word(p, 0), int32(word(p, 4)), floats(words(at(p, 16), n, 1)), ints(words(at(p, 24), n, 1))
	}
	blocks := func(p unsafe.Pointer) int {
		n := 1
		q.BlockSizes = words(at(p, 0), len(dims), 1)
		for i, d := range dims {
			n *= int(d / q.BlockSizes[i])
		}
		return n
	}
	floatPairs := func(p unsafe.Pointer, n int) {
		q.Scales, q.FloatOffsets = floats(words(p, n, 2)), floats(words(unsafe.Add(p, 4), n, 2))
	}
	switch q.Encoding {
	case ScaleOffset:
		pairs(body, 1)
	case AxisScaleOffset:
		q.Axis = int32(word(body, 0))
		pairs(at(body, 8), int(word(body, 4)))
	case BitsScaleOffset:
		q.Bits = word(body, 0)
		pairs(unsafe.Add(body, 4), 1)
	case BitsAxisScaleOffset:
		bitsAxis(body)
	case Block:
		n := blocks(body)
		pairs(at(body, 8), n)
	case BlockwiseExpansion:
		p := at(body, 0)
		q.Axis, q.BlocksPerAxis, q.BlockScaleBits = int32(word(p, 0)), word(p, 16), word(p, 20)
		n := int(dims[q.Axis])
		pairs(at(p, 8), n)
		q.BlockScales = unsafe.Slice((*uint8)(at(p, 32)), n*int(q.BlocksPerAxis))
		require.Zero(t, word(p, 24), "bytes")
	case Vector:
		p := at(body, 0)
		bitsAxis(p)
		q.Codebook = Codebook{word(p, 32), word(p, 36), *(*uint8)(unsafe.Add(p, 40)), *(*uint8)(unsafe.Add(p, 41)), *(*uint8)(unsafe.Add(p, 42))}
	case FloatBlock:
		n := blocks(body)
		floatPairs(at(body, 8), n)
	case BitsFloatBlock:
		q.Bits = word(body, 0)
		n := blocks(unsafe.Add(body, 8))
		floatPairs(at(body, 16), n)
	}
	return q
}

func TestQuantizationsAreReadBackAsGiven(t *testing.T) {
	dims := []uint32{4, 24}
	rng := rand.New(rand.NewPCG(1, 9))
	for _, q := range everyEncoding(rng) {
		tensor := Tensor{Name: "w", Kind: Static, Type: Fixed8, Dims: dims, Data: make([]byte, 96), Quantization: q}
		var c cTensor
		var k keeper
		require.NoError(t, tensor.encode(&c, &k))
		require.EqualValues(t, 1, c.quantize.definition)
		require.Equal(t, q, decodeQuantization(t, &c.quantize, dims))
	}
}

func TestInvalidQuantizationsAreRejected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	refused := 0
	for i := range everyEncoding(rng) {
		for name, change := range map[string]func(q *Quantization){
			"one scale too few":     func(q *Quantization) { q.Scales = q.Scales[1:] },
			"one scale too many":    func(q *Quantization) { q.Scales = append(q.Scales, 1) },
			"no scales":             func(q *Quantization) { q.Scales = nil },
			"a scale of zero":       func(q *Quantization) { q.Scales[0] = 0 },
			"a negative scale":      func(q *Quantization) { q.Scales[len(q.Scales)-1] = -1 },
			"a NaN":                 func(q *Quantization) { q.Scales[0] = float32(math.NaN()) },
			"infinity":              func(q *Quantization) { q.Scales[0] = float32(math.Inf(1)) },
			"too many offsets":      func(q *Quantization) { q.Offsets = append(q.Offsets, 1, 2) },
			"too many real offsets": func(q *Quantization) { q.FloatOffsets = append(q.FloatOffsets, 1, 2) },
			"axis 2":                func(q *Quantization) { q.Axis = 2 },
			"axis -1":               func(q *Quantization) { q.Axis = -1 },
			"axis 1":                func(q *Quantization) { q.Axis = 1 },
			"a block of zero":       func(q *Quantization) { q.BlockSizes[1] = 0 },
			"a block of 7":          func(q *Quantization) { q.BlockSizes[1] = 7 },
			"a block of 4":          func(q *Quantization) { q.BlockSizes[1] = 4 },
			"one block size":        func(q *Quantization) { q.BlockSizes = q.BlockSizes[:1] },
			"no block scales":       func(q *Quantization) { q.BlockScales = q.BlockScales[:0] },
			"no blocks":             func(q *Quantization) { q.BlocksPerAxis, q.BlockScales = 0, nil },
			"a new encoding":        func(q *Quantization) { q.Encoding = 12 },
		} {
			q := everyEncoding(rng)[i]
			if !concerns(q, name) {
				continue
			}
			change(q)
			tensor := Tensor{Name: "w", Kind: Static, Type: Fixed8, Dims: []uint32{4, 24}, Quantization: q}
			require.ErrorIs(t, tensor.encode(&cTensor{}, &keeper{}), ErrQuantization, "%s: %+v", name, q)
			refused++
		}
	}
	require.Greater(t, refused, 75)
	unknown := Tensor{Name: "w", Kind: Native, Type: Fixed8, Dims: []uint32{1}, Quantization: &Quantization{Encoding: 12}}
	require.ErrorIs(t, unknown.encode(&cTensor{}, &keeper{}), errors.ErrUnsupported)
}

// concerns reports whether the encoding uses the field that a change of the test damages.
func concerns(q *Quantization, change string) bool {
	axis := slices.Contains([]Encoding{AxisScaleOffset, BitsAxisScaleOffset, BlockwiseExpansion, Vector}, q.Encoding)
	switch change {
	case "axis 2", "axis -1", "axis 1":
		return axis
	case "a block of zero", "a block of 7", "a block of 4", "one block size":
		return q.BlockSizes != nil
	case "no block scales", "no blocks":
		return q.Encoding == BlockwiseExpansion
	case "too many offsets":
		return q.Offsets != nil
	}
	return true
}

// quantized is a layer y = x·w with integer weights.
type quantized struct {
	name, op   string
	weights    *Quantization
	weightDims []uint32
	half       bool // half is set for float16 activations
	weight     func(o, i int) float64
}

const quantizedIn, quantizedOut = 64, 32

// TestQuantizedLayersAgreeWithGo runs a layer in every supported encoding, first newly compiled
// and then from a saved image, and compares the outputs with sums that are computed in Go.
func TestQuantizedLayersAgreeWithGo(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) { runQuantizedLayers(t, openSession(t, path)) })
}

func runQuantizedLayers(t *testing.T, s *session) {
	rng := rand.New(rand.NewPCG(4, 2))
	data := make([]byte, quantizedIn*quantizedOut)
	for i := range data {
		data[i] = byte(int8(rng.IntN(15) - 7)) // a number from -7 to 7 fits into 4 bits
	}
	scales := func(n int) (list []float32) {
		for range n {
			list = append(list, 0.01+0.05*rng.Float32())
		}
		return list
	}
	one, channel, block, half := scales(1), scales(quantizedOut), scales(quantizedOut*2), make([]uint8, quantizedOut*2)
	for i := range half {
		half[i] = uint8(1 + rng.IntN(15))
	}
	rows := func(o, i int) int { return o*quantizedIn + i }
	columns := func(o, i int) int { return i*quantizedOut + o }
	at := func(element int) float64 { return float64(int8(data[element])) }
	fc := []uint32{quantizedOut, quantizedIn}
	for _, l := range []quantized{
		{
			name: "per tensor", op: "FullyConnected", weightDims: fc, weights: &Quantization{Encoding: ScaleOffset, Scales: one},
			weight: func(o, i int) float64 { return at(rows(o, i)) * float64(one[0]) },
		},
		{
			name: "per channel", op: "FullyConnected", weightDims: fc, weights: &Quantization{Encoding: AxisScaleOffset, Scales: channel},
			weight: func(o, i int) float64 { return at(rows(o, i)) * float64(channel[o]) },
		},
		{
			name: "4 bits per tensor", op: "FullyConnected", weightDims: fc, weights: &Quantization{Encoding: BitsScaleOffset, Bits: 4, Scales: one},
			weight: func(o, i int) float64 { return at(rows(o, i)) * float64(one[0]) },
		},
		{
			name: "4 bits per channel", op: "FullyConnected", weightDims: fc, weights: &Quantization{Encoding: BitsAxisScaleOffset, Bits: 4, Scales: channel},
			weight: func(o, i int) float64 { return at(rows(o, i)) * float64(channel[o]) },
		},
		{
			name: "blockwise expansion", op: "MatMul", weightDims: []uint32{quantizedIn, quantizedOut},
			weights: &Quantization{Encoding: BlockwiseExpansion, Axis: 1, Scales: channel, BlocksPerAxis: 2, BlockScaleBits: 4, BlockScales: half},
			weight: func(o, i int) float64 {
				return at(columns(o, i)) * float64(channel[o]) * float64(half[2*o+i/32])
			},
		},
		{
			name: "float blocks", op: "FullyConnected", weightDims: fc, half: true,
			weights: &Quantization{Encoding: BitsFloatBlock, Bits: 4, BlockSizes: []uint32{1, 32}, Scales: block},
			weight:  func(o, i int) float64 { return at(rows(o, i)) * float64(block[2*o+i/32]) },
		},
	} {
		t.Run(l.name, func(t *testing.T) { l.run(t, s, data, rng) })
	}
}

func (l *quantized) run(t *testing.T, s *session, data []byte, rng *rand.Rand) {
	var input []byte
	x := make([]float64, quantizedIn)
	scale, offset := 1.0/8192, int32(-32768)
	for i := range x {
		bits := uint16(rng.IntN(65536))
		x[i] = scale * float64(int32(bits)+offset)
		if l.half {
			x[i] = float64(rng.IntN(64)-32) / 16
			bits = smallFloat16(x[i])
		}
		input = binary.LittleEndian.AppendUint16(input, bits)
	}
	want, most := make([]float64, quantizedOut), 0.0
	for o := range want {
		for i := range x {
			want[o] += x[i] * l.weight(o, i)
		}
		most = max(most, math.Abs(want[o]))
	}
	out := Quantization{Encoding: ScaleOffset, Scales: []float32{float32(2 * most / 65535)}, Offsets: []int32{-32768}}
	in := Quantization{Encoding: ScaleOffset, Scales: []float32{float32(scale)}, Offsets: []int32{offset}}
	tx := Tensor{Name: "x", Kind: AppWrite, Type: UFixed16, Dims: []uint32{1, quantizedIn}, Quantization: &in}
	ty := Tensor{Name: "y", Kind: AppRead, Type: UFixed16, Dims: []uint32{1, quantizedOut}, Quantization: &out}
	if l.half {
		tx.Type, tx.Quantization, ty.Type, ty.Quantization = Float16, nil, Float16, nil
	}
	tw := Tensor{Name: "w", Kind: Static, Type: Fixed8, Dims: l.weightDims, Quantization: l.weights, Data: data}
	op := &Op{Name: "n", Type: l.op, Inputs: []*Tensor{&tx, &tw}, Outputs: []*Tensor{&ty}}
	c := s.newContext(t)
	g, err := c.NewGraph("g", GraphOptions{})
	require.NoError(t, err)
	require.NoError(t, s.backend.Validate(op))
	for _, tensor := range []*Tensor{&tx, &tw, &ty} {
		require.NoError(t, g.CreateTensor(tensor))
	}
	require.NoError(t, g.AddNode(op))
	require.NoError(t, g.Finalize(nil))
	output, again := make([]byte, 2*quantizedOut), make([]byte, 2*quantizedOut)
	inputs := []ExecTensor{{ID: tx.ID, Data: input}}
	require.NoError(t, g.Execute(inputs, []ExecTensor{{ID: ty.ID, Data: output}}))
	size, err := c.BinarySize()
	require.NoError(t, err)
	image, err := c.Binary(make([]byte, size))
	require.NoError(t, err)
	loaded, err := s.backend.LoadContext(s.device, image, ContextOptions{}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, loaded.Close()) }()
	g, err = loaded.Graph(GraphInfo{Name: "g", Inputs: []Tensor{tx}, Outputs: []Tensor{ty}})
	require.NoError(t, err)
	require.NoError(t, g.Execute(inputs, []ExecTensor{{ID: ty.ID, Data: again}}))
	require.Equal(t, output, again, "from the image")
	for o := range want {
		bits := binary.LittleEndian.Uint16(output[2*o:])
		got, step := float64(int32(bits)-32768)*float64(out.Scales[0]), 12*float64(out.Scales[0])
		if l.half {
			got, step = float16(bits), most/500
		}
		require.InDelta(t, want[o], got, step, "output %d", o)
	}
}
