package qnn

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSizesAgreeWithBigIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	types := []DataType{Int8, Uint16, Float16, Float32, Int64, Bool8, 0x0264, 0}
	for range 5000 {
		tensor := Tensor{Name: "x", Type: types[rng.IntN(len(types))]}
		want := big.NewInt(int64(tensor.Type.Size()))
		for range rng.IntN(maxRank + 2) {
			d := rng.Uint32() >> rng.IntN(33)
			tensor.Dims = append(tensor.Dims, d)
			want.Mul(want, big.NewInt(int64(d)))
		}
		size, err := tensor.SizeBytes()
		if len(tensor.Dims) == 0 || len(tensor.Dims) > maxRank || want.Sign() == 0 || want.Cmp(big.NewInt(math.MaxUint32)) > 0 {
			require.ErrorIs(t, err, ErrSize, "%+v", tensor)
		} else {
			require.NoError(t, err)
			require.EqualValues(t, want.Int64(), size, "%+v", tensor)
		}
	}
}

func TestInvalidTensorsAreRejected(t *testing.T) {
	sound := Tensor{Name: "w", Kind: Static, Type: Float32, Dims: []uint32{2, 3}, Data: make([]byte, 24)}
	require.NoError(t, sound.encode(&cTensor{}, &keeper{}))
	tests := []struct {
		name   string
		change func(*Tensor)
		want   error
	}{
		{"short data", func(x *Tensor) { x.Data = x.Data[1:] }, ErrSize},
		{"long data", func(x *Tensor) { x.Data = make([]byte, 25) }, ErrSize},
		{"empty data", func(x *Tensor) { x.Data = []byte{} }, ErrSize},
		{"data of an input", func(x *Tensor) { x.Kind = AppWrite }, ErrSize},
		{"a zero dimension", func(x *Tensor) { x.Dims = []uint32{2, 0} }, ErrSize},
		{"no dimension", func(x *Tensor) { x.Dims = nil }, ErrSize},
		{"an unknown type", func(x *Tensor) { x.Type = 0x0999 }, ErrSize},
		{"no name", func(x *Tensor) { x.Name = "" }, ErrName},
		{"a NUL in the name", func(x *Tensor) { x.Name = "w\x00w" }, ErrName},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := sound
			test.change(&x)
			require.ErrorIs(t, x.encode(&cTensor{}, &keeper{}), test.want)
			good := Tensor{Name: "x", Kind: Native, Type: Float32, Dims: []uint32{1}}
			for _, op := range []Op{
				{Name: "n", Type: "Add", Inputs: []*Tensor{&good, &x}},
				{Name: "n", Type: "Add", Outputs: []*Tensor{&x}},
				{Name: "n", Type: "Add", Params: []Param{{Name: "p", Tensor: &x}}},
			} {
				_, err := op.encode()
				require.ErrorIs(t, err, test.want)
				require.ErrorContains(t, err, `node "n"`)
			}
		})
	}
}

func TestNamesOfNodesAreChecked(t *testing.T) {
	for _, op := range []Op{
		{Type: "Add"},
		{Name: "n"},
		{Name: "n\x00", Type: "Add"},
		{Name: "n", Type: "Add\x00"},
		{Name: "n", Type: "Add", Package: "p\x00"},
		{Name: "n", Type: "Add", Params: []Param{{Scalar: ScalarUint32(1)}}},
		{Name: "n", Type: "Add", Inputs: []*Tensor{nil}},
	} {
		_, err := op.encode()
		require.ErrorIs(t, err, ErrName, "%+v", op)
	}
}

func TestNodesAreEncodedCompletely(t *testing.T) {
	axes := Tensor{Name: "axes", Kind: Static, Type: Uint32, Dims: []uint32{1}, Data: []byte{2, 0, 0, 0}, ID: 5}
	x := Tensor{Name: "x", Kind: Native, Type: Float16, Dims: []uint32{4, 2}, ID: 6}
	y := Tensor{Name: "y", Kind: AppRead, Type: Float16, Dims: []uint32{4, 2}, ID: 7}
	call, err := (&Op{
		Name: "node", Type: "RmsNorm",
		Params: []Param{
			{Name: "epsilon", Scalar: ScalarFloat32(1e-5)},
			{Name: "axes", Tensor: &axes},
			{Name: "flag", Scalar: ScalarBool(true)},
			{Name: "shift", Scalar: ScalarInt32(-2)},
		},
		Inputs: []*Tensor{&x, &axes}, Outputs: []*Tensor{&y},
	}).encode()
	require.NoError(t, err)
	c := &call.config
	require.EqualValues(t, 1, c.version)
	require.Equal(t, []string{"node", Package, "RmsNorm"}, []string{goString(c.name), goString(c.pkg), goString(c.opType)})

	params := unsafe.Slice(c.params, c.numParams)
	require.Len(t, params, 4)
	scalar := func(i int) cScalar { return *(*cScalar)(unsafe.Pointer(&params[i].value)) }
	require.Equal(t, cScalar{dataType: uint32(Float32), value: uint64(math.Float32bits(1e-5))}, scalar(0))
	require.Equal(t, cScalar{dataType: uint32(Bool8), value: 1}, scalar(2))
	require.Equal(t, cScalar{dataType: uint32(Int32), value: 0xfffffffe}, scalar(3))
	require.Equal(t, []uint32{0, 1, 0, 0}, []uint32{params[0].kind, params[1].kind, params[2].kind, params[3].kind})
	require.Equal(t, "axes", goString(params[1].name))
	require.EqualValues(t, 5, params[1].value.id)
	require.Equal(t, axes.Data, unsafe.Slice(*(**byte)(unsafe.Pointer(&params[1].value.buffer.data)), params[1].value.buffer.size))

	in, out := unsafe.Slice(c.in, c.numIn), unsafe.Slice(c.out, c.numOut)
	require.Equal(t, []uint32{6, 5, 7}, []uint32{in[0].id, in[1].id, out[0].id})
	require.Equal(t, []uint32{4, 2}, unsafe.Slice(in[0].dims, in[0].rank))
	require.EqualValues(t, undefined, in[0].quantize.definition)
	require.EqualValues(t, undefined, in[0].quantize.encoding)
}

func TestConfigsEndWithNull(t *testing.T) {
	var c configs
	require.Nil(t, c.pointer())
	o := ContextOptions{Priority: PriorityHigh, Persistent: true, EnableGraphs: []string{"a", "bc"}, WeightSharing: true}
	require.NoError(t, o.encode(&c))
	list := unsafe.Slice((**cConfig)(c.pointer()), 5)
	defer c.done()
	require.Nil(t, list[4])
	require.Equal(t, cConfig{option: 1, value: 200}, *list[0])
	require.Equal(t, cConfig{option: 7, value: 1}, *list[1])
	require.EqualValues(t, 5, list[2].option)
	require.EqualValues(t, 0, list[3].option)

	names := c.keep[0].([]*byte)
	require.EqualValues(t, uintptr(unsafe.Pointer(&names[0])), list[2].value)
	require.Equal(t, []string{"a", "bc"}, []string{goString(names[0]), goString(names[1])})
	require.Nil(t, names[2])
	custom := c.keep[1].(*cCustomConfig)
	require.EqualValues(t, uintptr(unsafe.Pointer(custom)), list[3].value)
	require.EqualValues(t, 1, custom.value[0])

	o.EnableGraphs = []string{"a\x00"}
	require.ErrorIs(t, o.encode(&configs{}), ErrName)
}

func TestBurstVotesForTheHighestCorner(t *testing.T) {
	vote := Burst()
	configs := vote.encode(9)
	require.Len(t, configs, 3)
	const most = uint32(CornerMax)
	require.Equal(t, cPowerConfig{option: 1, value: [16]uint32{
		9, 1, 0, 0x10, 1, 40, 0, 0, 1, most, most, most, 1, most, most, most,
	}}, *configs[0])
	require.Equal(t, cPowerConfig{option: 2, value: [16]uint32{100}}, *configs[1])
	require.Equal(t, cPowerConfig{option: 3, value: [16]uint32{9999}}, *configs[2])

	idle := Vote{DCVS: true, Mode: PowerSaver, SleepLatency: time.Millisecond}
	require.Equal(t, [16]uint32{0, 1, 1, 4, 1, 1000}, idle.encode(0)[0].value)
}

func TestTextOfTheLibraryIsBounded(t *testing.T) {
	long := []byte(strings.Repeat("x", 2*textLimit))
	require.Len(t, goString(&long[0]), textLimit)
	require.Empty(t, goString(nil))
	empty := byte(0)
	require.Empty(t, goString(&empty))
}

func TestCountsOfTheLibraryAreBounded(t *testing.T) {
	numbers := []uint64{1, 2, 3}
	got, err := list(&numbers[0], 3, 3)
	require.NoError(t, err)
	require.Equal(t, numbers, got)
	got[0] = 9
	require.EqualValues(t, 1, numbers[0], "a copy")
	_, err = list(&numbers[0], 4, 3)
	require.ErrorIs(t, err, ErrSize)
	_, err = list(&numbers[0], math.MaxUint32, 3)
	require.ErrorIs(t, err, ErrSize)
	got, err = list[uint64](nil, 3, 3)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = decodePlatform(&cPlatformInfo{version: 2})
	require.ErrorIs(t, err, ErrVersion)
}

func TestErrorsMatchByCode(t *testing.T) {
	err := error(&Error{Call: "graphFinalize", Code: codeNoMemory, Message: "no memory", Detail: []string{"first", "second"}})
	require.EqualError(t, err, "qnn: graphFinalize: code 1002 (no memory): first; second")
	require.ErrorIs(t, err, ErrNoMemory)
	require.NotErrorIs(t, err, ErrNotSupported)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, &Error{Code: codeOpUnknown}, errors.ErrUnsupported)
	require.ErrorIs(t, &Error{Code: codeNotSupported}, errors.ErrUnsupported)
}
