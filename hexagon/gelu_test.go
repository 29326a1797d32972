package hexagon

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// TestGeluOfHugeNumbersIsNotNaN runs the operators that package model writes
// for GELU on every finite float16. Where x² overflows, libraries must carry
// the infinity through: x·(a+b·∞) has x's sign, and its sigmoid is 0 or 1.
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
			return b.Constant(name, backend.Float16, backend.Literal(encode([]float32{v}, backend.Float16)), 1)
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
		y := decode(runGraph(t, d, load(t, d, g), "gelu", map[string][]byte{"x": encode(x, backend.Float16)})["y"], backend.Float16)
		worst := 0.0
		for i, v := range x {
			want := float64(v) / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(float64(v)+0.044715*math.Pow(float64(v), 3))))
			deviation := math.Abs(float64(y[i])-want) / math.Max(0.25, math.Abs(want))
			require.False(t, !(deviation < 0.02), "gelu of %v is %v, not %v", v, y[i], want)
			worst = max(worst, deviation)
		}
		t.Logf("%d numbers, off by %.2g at most", len(x), worst)
	})
}
