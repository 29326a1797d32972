package backendtest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// decodeFloats decodes floating-point elements.
func decodeFloats(raw []byte, t backend.DataType) []float64 {
	values := Decode(raw, t)
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

// encoded converts numbers to the bytes of a tensor, rounded to the tensor's type.
func encoded(values []float64, t backend.DataType) []byte {
	out := make([]byte, len(values)*t.Size())
	for i, v := range values {
		if t == backend.Float16 {
			binary.LittleEndian.PutUint16(out[2*i:], quant.F32ToF16(float32(v)))
		} else {
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(float32(v)))
		}
	}
	return out
}

// normal returns n normally distributed elements.
func normal(rng *rand.Rand, n int, deviation float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64() * deviation
	}
	return out
}

// Encode returns float32 or float16 numbers as the memory of a tensor.
func Encode(values []float32, t backend.DataType) []byte {
	var b []byte
	for _, v := range values {
		if t == backend.Float16 {
			b = binary.LittleEndian.AppendUint16(b, quant.F32ToF16(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// Decode returns the float32 or float16 numbers in a tensor's memory.
func Decode(raw []byte, t backend.DataType) []float32 {
	values := make([]float32, len(raw)/t.Size())
	if err := quant.DecodeFloats(values, raw, t); err != nil {
		panic(err) // the caller passed a type that is not floating-point
	}
	return values
}
