package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// MaxRank is the largest rank of a tensor: the vendor's operators of a
// transformer need four, its library takes five.
const MaxRank = 5

// DataType is the type of a tensor's elements.
type DataType uint8

// The element types that graphs use.
const (
	Float32 DataType = iota + 1
	Float16
	Int32
	Uint32
	Bool8
	// Fixed-point numbers: integers that an [Encoding] gives a meaning.
	Ufixed8
	Ufixed16
	Sfixed8
	Sfixed32
)

var dataTypes = map[DataType]struct {
	name string
	size int
}{
	Float32: {"f32", 4},
	Float16: {"f16", 2},
	Int32:   {"i32", 4},
	Uint32:  {"u32", 4},
	Bool8:   {"bool8", 1},

	Ufixed8:  {"u8", 1},
	Ufixed16: {"u16", 2},
	Sfixed8:  {"s8", 1},
	Sfixed32: {"s32", 4},
}

// Size is the size of one element in bytes, 0 for an unknown type.
func (t DataType) Size() int { return dataTypes[t].size }

// Float reports whether the type is a floating-point type.
func (t DataType) Float() bool { return t == Float32 || t == Float16 }

// Fixed reports whether the type is a fixed-point type.
func (t DataType) Fixed() bool { return t >= Ufixed8 && t <= Sfixed32 }

// String names the type as the documents do: "f16".
func (t DataType) String() string {
	if d, ok := dataTypes[t]; ok {
		return d.name
	}
	return fmt.Sprintf("DataType(%d)", uint8(t))
}

// Kind says where the elements of a tensor come from.
type Kind uint8

// The kinds of tensors.
const (
	// Input elements are bound by the caller for each run.
	Input Kind = iota + 1
	// Output elements are written to memory that the caller binds.
	Output
	// Intermediate elements live inside the device between two nodes.
	Intermediate
	// Constant elements are compiled into the image.
	Constant
)

// TensorID is the place of a tensor in [Graph.Tensors].
type TensorID int

// Tensor describes one tensor of a graph.
type Tensor struct {
	// Name is unique in its graph.
	Name  string
	Kind  Kind
	Type  DataType
	Shape []int
	// Encoding is set for fixed-point types only.
	Encoding Encoding
	// Values is set for constants only.
	Values Values
}

// Elements is the number of elements.
func (t *Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// SizeBytes is the size of all elements.
func (t *Tensor) SizeBytes() int { return t.Elements() * t.Type.Size() }

// PackedBytes is SizeBytes with elements that have fewer significant bits than
// their type packed, as chips keep them. Steps are not counted.
func (t *Tensor) PackedBytes() int {
	if t.Encoding.Bits == 0 {
		return t.SizeBytes()
	}
	return (t.Elements()*t.Encoding.Bits + 7) / 8
}

// Values says where the elements of a constant come from. Weights are large
// and usually converted from a mapped file, so they are asked for when a
// device compiles them and not before.
type Values struct {
	// ID names the content: constants of one process with equal ID, type and
	// shape hold equal elements. Devices store those once; image caches build
	// their keys from it.
	ID string
	// Fill writes all elements to dst, whose length is the tensor's size in
	// bytes. It may be called several times, from one goroutine at a time.
	Fill func(dst []byte) error
	// FillSteps takes Fill's place where the tensor has [Tensor.Steps], which it
	// writes too; both follow from the same numbers.
	FillSteps func(dst []byte, steps []Step) error
}

// Fill asks for the elements and steps of a constant; dst has its size in
// bytes.
func (t *Tensor) Fill(dst []byte) ([]Step, error) {
	n := t.Steps()
	if n == 0 {
		return nil, t.Values.Fill(dst)
	}
	steps := make([]Step, n)
	return steps, t.Values.FillSteps(dst, steps)
}

// Literal is Values holding data, which the caller must not change afterwards.
func Literal(data []byte) Values {
	sum := sha256.Sum256(data)
	return Values{
		ID: "sha256:" + hex.EncodeToString(sum[:]),
		Fill: func(dst []byte) error {
			if len(dst) != len(data) {
				return fmt.Errorf("backend: literal has %d bytes, %d wanted", len(data), len(dst))
			}
			copy(dst, data)
			return nil
		},
	}
}
