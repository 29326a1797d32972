package hexagon

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// TestGeluOfHugeNumbersIsNotNaN runs package model's operators for GELU on every finite
// float16. If x² overflows to infinity, the argument of the sigmoid is infinite, with the
// sign of x, and the sigmoid must be 0 or 1.
func TestGeluOfHugeNumbersIsNotNaN(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		d := openLibrary(t, path)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		var x []float32
		for bits := range 1 << 16 {
			if v := quant.F16ToF32(uint16(bits)); !math.IsInf(float64(v), 0) && v == v {
				x = append(x, v)
			}
		}
		const rows = 32
		b := backend.NewBuilder("gelu")
		in := b.Input("x", backend.Float16, rows, len(x)/rows)
		scalar := func(name string, v float32) backend.TensorID {
			return b.Constant(name, backend.Float16, backend.Literal(backendtest.Encode([]float32{v}, backend.Float16)), 1)
		}
		apply := func(name string, op backend.Op, in ...backend.TensorID) backend.TensorID {
			return b.Apply(name, op, in)
		}
		linear, cubic := scalar("linear", 1.5957691), scalar("cubic", 1.5957691*0.044715)
		factor := apply("factor", backend.Add, apply("cubed", backend.Multiply, apply("square", backend.Multiply, in, in), cubic), linear)
		sigmoid := apply("sigmoid", backend.Sigmoid, apply("inner", backend.Multiply, in, factor))
		b.Output(apply("y", backend.Multiply, in, sigmoid))
		g, err := b.Graph()
		require.NoError(t, err)
		y := backendtest.Decode(runGraph(t, d, load(t, d, g), "gelu", map[string][]byte{"x": backendtest.Encode(x, backend.Float16)})["y"], backend.Float16)
		worst := 0.0
		for i, v := range x {
			want := float64(v) / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(float64(v)+0.044715*math.Pow(float64(v), 3))))
			deviation := math.Abs(float64(y[i])-want) / math.Max(0.25, math.Abs(want))
			require.False(t, !(deviation < 0.02), "gelu of %v is %v, not %v", v, y[i], want)
			worst = max(worst, deviation)
		}
		t.Logf("%d numbers, largest error %.2g", len(x), worst)
	})
}

// TestTopKIsExactForWholeVocabularies compares values with a sort, bit for bit. Each index
// that TopK returns must point to the returned value; of equal values, TopK may choose any.
func TestTopKIsExactForWholeVocabularies(t *testing.T) {
	const k = 128
	onEachLibrary(t, func(t *testing.T, path string) {
		d := openDevice(t, path)
		for _, c := range []struct{ vocabulary, rows int }{{49152, 1}, {49152, 32}, {151936, 1}, {151936, 8}} {
			t.Run(fmt.Sprintf("%dx%d", c.rows, c.vocabulary), func(t *testing.T) {
				b := backend.NewBuilder("top")
				values, indices := b.TopK("y", b.Input("x", backend.Float16, c.rows, c.vocabulary), k)
				b.Output(values)
				b.Output(indices)
				g, err := b.Graph()
				require.NoError(t, err)
				x := make([]byte, 2*c.rows*c.vocabulary)
				rng := rand.New(rand.NewPCG(1, 2))
				row := make([]uint16, 0, c.vocabulary)
				for i := range c.rows * c.vocabulary {
					binary.LittleEndian.PutUint16(x[2*i:], quant.F32ToF16(float32(rng.NormFloat64()*3)))
				}
				out := runGraph(t, d, load(t, d, g), "top", map[string][]byte{"x": x})
				y, at := out["y"], out["y_indices"]
				half := func(from []byte, i int) uint16 { return binary.LittleEndian.Uint16(from[2*i:]) }
				for r := range c.rows {
					row = row[:0]
					for i := range c.vocabulary {
						row = append(row, half(x, r*c.vocabulary+i))
					}
					slices.SortFunc(row, func(a, b uint16) int { return cmp.Compare(quant.F16ToF32(b), quant.F16ToF32(a)) })
					seen := make(map[uint32]bool)
					for i := range k {
						index := binary.LittleEndian.Uint32(at[4*(r*k+i):])
						require.Less(t, int(index), c.vocabulary)
						require.False(t, seen[index], "row %d: index %d occurs twice", r, index)
						seen[index] = true
						require.Equal(t, row[i], half(y, r*k+i), "row %d, place %d", r, i)
						require.Equal(t, row[i], half(x, r*c.vocabulary+int(index)), "row %d, place %d", r, i)
					}
				}
			})
		}
	})
}
