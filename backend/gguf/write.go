package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"

	"github.com/sdnpu/sdnpu/backend/quant"
)

// KeyValue is a key that will be written to a file, with its value. Value is a bool, an
// integer with a fixed size (int32, not int), a float, a string, or a slice of one of
// these types.
type KeyValue struct {
	Name  string
	Value any
}

// NewTensor is a tensor that will be written to a file. Shape lists the dimensions in
// the order of GGUF, as in [Tensor].
type NewTensor struct {
	Name  string
	Type  quant.Type
	Shape []int
	Data  []byte // Data holds the rows of the tensor in the format Type; Write does not keep the slice
}

// Write writes a GGUF file of version 3. Use Write for small files, such as an adapter
// that has keys only; [File.WriteWith] copies whole models.
func Write(w io.Writer, keys []KeyValue, tensors []NewTensor) error {
	alignment, err := writtenAlignment(keys)
	if err != nil {
		return err
	}
	head := appendStart(nil, len(tensors), len(keys))
	if head, err = appendKeys(head, keys); err != nil {
		return err
	}
	offset := uint64(0)
	for i, t := range tensors {
		if err := checkNewTensor(t, tensors[:i]); err != nil {
			return err
		}
		head = appendString(head, t.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for _, d := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(d))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, offset)
		offset += uint64(len(t.Data))
		offset += padding(offset, alignment)
	}
	if err := writePadded(w, head, alignment); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := writePadded(w, t.Data, alignment); err != nil {
			return err
		}
	}
	return nil
}

// WriteWith writes a copy of the file in which the given keys are added or replaced.
// WriteWith copies the tensors byte for byte, one mebibyte at a time. WriteWith cannot
// change the alignment of the file.
func (f *File) WriteWith(w io.Writer, changes []KeyValue) error {
	if _, err := appendKeys(nil, changes); err != nil {
		return err // appendKeys also rejects repeated keys
	}
	added := slices.Clone(changes)
	var kept []byte
	for _, k := range f.header.keys {
		raw := f.data[k.start:k.end]
		if i := slices.IndexFunc(added, func(kv KeyValue) bool { return kv.Name == k.Name }); i >= 0 {
			var err error
			if kept, err = appendKeys(kept, added[i:i+1]); err != nil {
				return err
			}
			added = slices.Delete(added, i, i+1)
		} else {
			kept = append(kept, raw...)
		}
	}
	for _, kv := range changes {
		if kv.Name == keyAlignment {
			return fmt.Errorf("gguf: write: %w: a copy cannot change key %s", ErrUnsupported, keyAlignment)
		}
	}
	head := appendStart(nil, len(f.header.tensors), len(f.header.keys)+len(added))
	head = append(head, kept...)
	head, err := appendKeys(head, added)
	if err != nil {
		return err
	}
	// The offsets in the table of tensors are relative to the start of the tensor data, so
	// they stay valid in a copy of the file.
	head = append(head, f.data[f.header.keysEnd:f.header.tensorsEnd]...)
	if err := writePadded(w, head, f.header.alignment); err != nil {
		return err
	}
	for rest := f.data[min(f.header.dataStart, len(f.data)):]; len(rest) > 0; {
		n, err := w.Write(rest[:min(1<<20, len(rest))])
		if err != nil {
			return fmt.Errorf("gguf: write tensors: %w", err)
		}
		rest = rest[n:]
	}
	return nil
}

func appendStart(b []byte, tensors, keys int) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(tensors))
	return binary.LittleEndian.AppendUint64(b, uint64(keys))
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

func appendKeys(b []byte, keys []KeyValue) ([]byte, error) {
	for i, kv := range keys {
		if kv.Name == "" || slices.ContainsFunc(keys[:i], func(o KeyValue) bool { return o.Name == kv.Name }) {
			return nil, fmt.Errorf("gguf: write: key %q is empty or given twice", kv.Name)
		}
		b = appendString(b, kv.Name)
		var err error
		if b, err = appendValue(b, kv.Value); err != nil {
			return nil, fmt.Errorf("gguf: write key %s: %w", kv.Name, err)
		}
	}
	return b, nil
}

// valueKinds maps each Go type to the GGUF value type that is written to the file.
var valueKinds = map[reflect.Kind]ValueType{
	reflect.Uint8: Uint8, reflect.Int8: Int8, reflect.Uint16: Uint16, reflect.Int16: Int16,
	reflect.Uint32: Uint32, reflect.Int32: Int32, reflect.Uint64: Uint64, reflect.Int64: Int64,
	reflect.Float32: Float32, reflect.Float64: Float64, reflect.Bool: Bool, reflect.String: String,
}

func appendValue(b []byte, value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return nil, fmt.Errorf("%w: nil", ErrKeyType)
	}
	t := v.Type()
	if v.Kind() == reflect.Slice {
		t = t.Elem()
		b = binary.LittleEndian.AppendUint32(b, uint32(Array))
	}
	typ, ok := valueKinds[t.Kind()]
	if !ok {
		return nil, fmt.Errorf("%w: the value of %s: want a bool, an integer with a fixed size, a float, a string or a slice of one of these", ErrKeyType, v.Type())
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(typ))
	if v.Kind() == reflect.Slice {
		b = binary.LittleEndian.AppendUint64(b, uint64(v.Len()))
	}
	switch {
	case v.Kind() == reflect.String:
		return appendString(b, v.String()), nil
	case typ == String:
		for i := range v.Len() {
			b = appendString(b, v.Index(i).String())
		}
		return b, nil
	}
	return binary.Append(b, binary.LittleEndian, value)
}

func writtenAlignment(keys []KeyValue) (uint64, error) {
	for _, kv := range keys {
		if kv.Name != keyAlignment {
			continue
		}
		a, ok := kv.Value.(uint32)
		if !ok || bits.OnesCount32(a) != 1 {
			return 0, fmt.Errorf("%w: key %s: want a uint32 that is a power of two", ErrKeyType, keyAlignment)
		}
		return uint64(a), nil
	}
	return defaultAlignment, nil
}

func checkNewTensor(t NewTensor, before []NewTensor) error {
	elements := 1
	for _, d := range t.Shape {
		elements *= d
	}
	size, err := t.Type.SizeBytes(elements)
	switch {
	case t.Name == "" || slices.ContainsFunc(before, func(o NewTensor) bool { return o.Name == t.Name }):
		return fmt.Errorf("gguf: write: tensor %q is empty or given twice", t.Name)
	case len(t.Shape) > maxDims || elements <= 0:
		return fmt.Errorf("gguf: write tensor %s: its shape %v is invalid", t.Name, t.Shape)
	case err != nil:
		return fmt.Errorf("gguf: write tensor %s: %w", t.Name, err)
	case len(t.Shape) > 0 && t.Shape[0]%t.Type.BlockSize() != 0:
		return fmt.Errorf("gguf: write tensor %s: rows of %d values are not a multiple of the block of type %s", t.Name, t.Shape[0], t.Type)
	case size != len(t.Data):
		return fmt.Errorf("gguf: write tensor %s: its data have %d bytes: want %d", t.Name, len(t.Data), size)
	}
	return nil
}

func writePadded(w io.Writer, b []byte, alignment uint64) error {
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	if _, err := w.Write(make([]byte, padding(uint64(len(b)), alignment))); err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	return nil
}
