package quant_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/quant"
)

// bounds are the largest errors of Quantize, as parts of the largest magnitude
// in a block. Where codes reach one step further on the peak's side, that step
// counts whole; elsewhere half the widest step does. Blocks of 256 pay for
// their scales' rounding, which is up. A float16 scale adds 2^-11 of the peak,
// and a minimum as much.
var bounds = map[quant.Type]float64{
	quant.F32:    0,
	quant.F16:    0x1p-11,
	quant.BF16:   0x1p-8,
	quant.Q8_0:   0.5/127 + 0x1p-11,
	quant.Q4_0:   1.0/8 + 0x1p-11,
	quant.Q5_0:   1.0/16 + 0x1p-11,
	quant.Q4_1:   1.0/15 + 0x1p-10,
	quant.Q5_1:   1.0/31 + 0x1p-10,
	quant.IQ4_NL: 14.0/127 + 0x1p-11,
	quant.MXFP4:  1.0 / 3,
	quant.Q2_K:   (2+2.0/15)/3/2 + 0x1p-10,
	quant.Q4_K:   (2+2.0/63)/15/2 + 0x1p-10,
	quant.Q5_K:   (2+2.0/63)/31/2 + 0x1p-10,
	quant.Q3_K:   1.0/4 + 0x1p-11,
	quant.Q6_K:   1.0/32 + 0x1p-11,
	quant.IQ4_XS: 14.0/127 + 0x1p-11,
}

// randomRow has blocks of different size and shift, zeros and lonely peaks.
func randomRow(rng *rand.Rand, n int) []float32 {
	row := make([]float32, n)
	for i := range row {
		if i%32 == 0 && rng.IntN(3) == 0 {
			row[i] = float32(rng.NormFloat64() * 5)
			continue
		}
		shift, scale := float64(i/32%3-1), math.Ldexp(1, i/32%7-3)
		row[i] = float32((rng.NormFloat64() + shift) * scale)
	}
	return row
}

func TestWhatIsQuantizedComesBackWithinTheBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, typ := range decoded {
		t.Run(typ.String(), func(t *testing.T) {
			bound, known := bounds[typ]
			require.True(t, known)
			worst := 0.0
			for range 300 {
				row := randomRow(rng, 256)
				size, err := typ.SizeBytes(len(row))
				require.NoError(t, err)
				packed, back := make([]byte, size), make([]float32, len(row))
				require.NoError(t, quant.Quantize(packed, row, typ))
				require.NoError(t, quant.Dequantize(back, packed, typ))
				for b := 0; b < len(row); b += typ.BlockSize() {
					worst = max(worst, relativeError(row[b:b+typ.BlockSize()], back[b:b+typ.BlockSize()]))
				}
			}
			require.LessOrEqual(t, worst, bound)
			require.GreaterOrEqual(t, worst, bound/3, "the bound says something")
		})
	}
}

// relativeError is the largest error in parts of the largest magnitude, or of
// 2^-6 if all are smaller: there, scales become subnormal.
func relativeError(want, got []float32) float64 {
	peak, away := 0x1p-6, 0.0
	for i, v := range want {
		peak = max(peak, math.Abs(float64(v)))
		away = max(away, math.Abs(float64(v)-float64(got[i])))
	}
	return away / peak
}

func TestZerosStayZeros(t *testing.T) {
	for _, typ := range decoded {
		size, err := typ.SizeBytes(512)
		require.NoError(t, err)
		packed, back := make([]byte, size), make([]float32, 512)
		require.NoError(t, quant.Quantize(packed, make([]float32, 512), typ))
		require.NoError(t, quant.Dequantize(back, packed, typ))
		for i, v := range back {
			require.Zero(t, v, "%s value %d", typ, i)
		}
	}
}

func TestQuantizeRefusesWhatAFormatDoesNotHold(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, typ := range decoded {
		size, err := typ.SizeBytes(256)
		require.NoError(t, err)
		for _, v := range []float32{inf, -inf, float32(math.NaN()), 70000, 3.4e38} {
			row := make([]float32, 256)
			row[77] = v
			err := quant.Quantize(make([]byte, size), row, typ)
			if fits := typ == quant.F32 && v > -inf && v < inf || typ == quant.BF16 && v == 70000; fits {
				require.NoError(t, err, "%s %v", typ, v)
				continue
			}
			require.ErrorIs(t, err, quant.ErrRange, "%s %v", typ, v)
			require.ErrorContains(t, err, fmt.Sprintf("value 77 is %v", v))
		}
		require.ErrorIs(t, quant.Quantize(make([]byte, size+1), make([]float32, 256), typ), quant.ErrLength)
	}
	require.ErrorIs(t, quant.Quantize(make([]byte, 292), make([]float32, 256), 15), errors.ErrUnsupported)
}

func TestTheFirstValueBeyondIsFound(t *testing.T) {
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

func TestTheFirstHalfThatIsNotFiniteIsFound(t *testing.T) {
	for h := range 1 << 16 { // every half at every place of a word
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

func FuzzDequantize(f *testing.F) {
	for _, typ := range decoded {
		f.Add(uint32(typ), randomBytes(2*typ.TypeSize(), 1), uint16(2*typ.BlockSize()))
		f.Add(uint32(typ), make([]byte, typ.TypeSize()), uint16(typ.BlockSize()+1))
	}
	f.Add(uint32(15), make([]byte, 292), uint16(256))
	f.Add(uint32(math.MaxUint32), []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, number uint32, src []byte, values uint16) {
		typ := quant.Type(number)
		dst := make([]float32, values)
		err := quant.Dequantize(dst, src, typ)
		size, wrong := typ.SizeBytes(int(values))
		fits := wrong == nil && size == len(src) && typ.CanDequantize()
		require.Equal(t, fits, err == nil, "%v", err)
		if !fits {
			require.True(t, errors.Is(err, errors.ErrUnsupported) || errors.Is(err, quant.ErrLength), "%v", err)
			return
		}
		// What was read can be written again, and is then within the bound.
		packed := make([]byte, size)
		if err := quant.Quantize(packed, dst, typ); err != nil {
			require.ErrorIs(t, err, quant.ErrRange)
			return
		}
		back := make([]float32, values)
		require.NoError(t, quant.Dequantize(back, packed, typ))
		for b := 0; b < len(dst); b += typ.BlockSize() {
			end := b + typ.BlockSize()
			require.LessOrEqual(t, relativeError(dst[b:end], back[b:end]), bounds[typ])
		}
	})
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
