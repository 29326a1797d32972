package qnn

import (
	"fmt"
	"math"
	"unsafe"
)

// maxRank is the most dimensions that a tensor may have here; the vendor's
// library runs up to five.
const maxRank = 8

// Tensor describes a tensor of a graph.
type Tensor struct {
	// Name is unique within the graph.
	Name string
	// Kind says who provides the elements.
	Kind TensorKind
	// Type is that of the elements.
	Type DataType
	// Dims is the shape, the outermost dimension first; none is zero.
	Dims []uint32
	// Quantization says what the integers of a fixed-point type mean. Nil means
	// that the elements are what they are.
	Quantization *Quantization
	// Data holds the elements of a static tensor, little-endian, exactly
	// [Tensor.SizeBytes] long. [Graph.CreateTensor] copies them; afterwards the
	// field may be set to nil. Other kinds have none.
	Data []byte
	// ID is the library's number, written by [Graph.CreateTensor].
	ID uint32
}

// SizeBytes returns the bytes of all elements. A type without a size, a zero
// dimension, no dimension or more than C can count are errors.
func (t *Tensor) SizeBytes() (uint32, error) {
	n := uint64(t.Type.Size())
	if n == 0 {
		return 0, fmt.Errorf("qnn: tensor %q: %v cannot be sized: %w", t.Name, t.Type, ErrSize)
	}
	if len(t.Dims) == 0 || len(t.Dims) > maxRank {
		return 0, fmt.Errorf("qnn: tensor %q has %d dimensions: %w", t.Name, len(t.Dims), ErrSize)
	}
	for _, d := range t.Dims {
		n *= uint64(d) // neither factor exceeds 32 bits
		if n == 0 || n > math.MaxUint32 {
			return 0, fmt.Errorf("qnn: tensor %q: shape %v of %v is empty or beyond 4 GiB: %w", t.Name, t.Dims, t.Type, ErrSize)
		}
	}
	return uint32(n), nil
}

// encode fills in the C struct; k keeps what it points to. Static data may be missing, as it is when a
// node is described after its tensors were created.
func (t *Tensor) encode(c *cTensor, k *keeper) error {
	size, err := t.SizeBytes()
	if err != nil {
		return err
	}
	if t.Data != nil && (t.Kind != Static || uint64(len(t.Data)) != uint64(size)) {
		return fmt.Errorf("qnn: %v tensor %q: %d bytes of data for %d: %w", t.Kind, t.Name, len(t.Data), size, ErrSize)
	}
	name, err := cString(t.Name)
	if err != nil {
		return fmt.Errorf("qnn: tensor %w", err)
	}
	*c = cTensor{
		version: 1, id: t.ID, name: name, kind: uint32(t.Kind), dataType: uint32(t.Type),
		rank: uint32(len(t.Dims)), dims: unsafe.SliceData(append([]uint32(nil), t.Dims...)),
	}
	if err := t.Quantization.encode(&c.quantize, t.Dims, k); err != nil {
		return fmt.Errorf("qnn: tensor %q: %w", t.Name, err)
	}
	if t.Data != nil {
		c.buffer = cClientBuffer{data: unsafe.Pointer(unsafe.SliceData(t.Data)), size: size}
	}
	return nil
}
