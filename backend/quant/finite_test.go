package quant_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/quant"
)

func TestFirstBeyondFindsFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad := []float32{nan, -nan, math.Float32frombits(0x7f800001), inf, -inf, 2, -2, 1.0000001}
	for n := range 70 {
		values, want := make([]float32, n), -1
		for i := range values {
			values[i] = 2*rng.Float32() - 1
		}
		for range rng.IntN(3) * min(n, 1) {
			i := rng.IntN(n)
			values[i] = bad[rng.IntN(len(bad))]
			if want < 0 || i < want {
				want = i
			}
		}
		require.Equal(t, want, quant.FirstBeyond(values, 1))
	}
	require.Equal(t, -1, quant.FirstBeyond([]float32{math.MaxFloat32, -math.MaxFloat32}, math.MaxFloat32))
	require.Equal(t, 1, quant.FirstBeyond([]float32{0, -inf}, math.MaxFloat32))
}

func TestFirstNotFiniteF16FindsFirst(t *testing.T) {
	for h := range 1 << 16 { // each float16 number is tested at each position in a 64-bit word
		for at := range 5 {
			src := []byte{0xff, 0x7b, 0xff, 0xfb, 1, 0, 0, 0x80, 0xff, 0x7b, 0}
			src[2*at], src[2*at+1] = byte(h), byte(h>>8)
			want := -1
			if h&0x7c00 == 0x7c00 {
				want = at
			}
			if got := quant.FirstNotFiniteF16(src); got != want {
				require.Equal(t, want, got, "%04x at %d", h, at)
			}
		}
	}
}

func BenchmarkFirstBeyond(b *testing.B) {
	values := make([]float32, 1<<16)
	b.SetBytes(4 << 16)
	for b.Loop() {
		_ = quant.FirstBeyond(values, 65504)
	}
}

func BenchmarkFirstNotFiniteF16(b *testing.B) {
	src := make([]byte, 1<<17)
	b.SetBytes(1 << 17)
	for b.Loop() {
		_ = quant.FirstNotFiniteF16(src)
	}
}
