package model_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/backendtest"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// constant finds a constant of the first layer's graph by its name.
func constant(t testing.TB, m *model.Model, recipe model.Recipe, name string) backend.Tensor {
	t.Helper()
	g, err := m.Block(model.Block{Name: "b", End: 1, Rows: 1, Context: 1, Recipe: recipe})
	require.NoError(t, err)
	for _, tensor := range g.Tensors {
		if tensor.Name == name {
			return tensor
		}
	}
	require.Fail(t, "no tensor", name)
	return backend.Tensor{}
}

func TestConstantsHoldWeightsOfFile(t *testing.T) {
	for _, arch := range []string{"llama", "qwen2"} {
		for _, format := range []quant.Type{quant.F32, quant.F16, quant.Q8_0} {
			m := modeltest.New(rand.New(rand.NewPCG(1, 2)), arch, format, true)
			m.Hidden, m.FFN = 64, 320 // ffn_gate has 320 rows, which are converted in several pieces
			m = m.Rebuild()
			loaded := load(t, m)
			for _, recipe := range model.Recipes[:2] { // the first two of model.Recipes compute in floating point
				for _, part := range []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_down"} {
					name := "blk.0." + part + ".weight"
					c := constant(t, loaded, recipe, name)
					data := make([]byte, c.SizeBytes())
					require.NoError(t, c.Values.Fill(data))
					want := m.Weights[name]
					if arch == "llama" && (part == "attn_q" || part == "attn_k") {
						want = toHalves(want, m.Dim, m.Hidden)
					}
					rounded := make([]float32, len(want))
					for i, v := range want {
						rounded[i] = float32(v)
					}
					require.Equal(t, backendtest.Encode(rounded, recipe.Weights), data, "%s %v %s %s", arch, format, recipe.Name, name)
				}
			}
		}
	}
}

func TestConstantIDsNameFileTensorOrderAndType(t *testing.T) {
	m := modeltest.New(rand.New(rand.NewPCG(1, 2)), "llama", quant.Q8_0, true)
	loaded := load(t, m)
	require.Equal(t, loaded.Digest()+"/blk.0.attn_q.weight/pairs32/f16",
		constant(t, loaded, model.Recipes[0], "blk.0.attn_q.weight").Values.ID)
	require.Equal(t, loaded.Digest()+"/blk.0.attn_v.weight/rows/f32",
		constant(t, loaded, model.Recipes[1], "blk.0.attn_v.weight").Values.ID)
}

// toHalves moves the rows of every head: first those at even indices, then
// those at odd ones.
func toHalves(rows []float64, dim, columns int) (moved []float64) {
	for head := 0; head < len(rows); head += dim * columns {
		for _, parity := range []int{0, 1} {
			for j := parity; j < dim; j += 2 {
				moved = append(moved, rows[head+j*columns:head+(j+1)*columns]...)
			}
		}
	}
	return moved
}

func TestInfiniteWeightsAreRejectedByName(t *testing.T) {
	f16, f32 := model.Recipes[0], model.Recipes[1]
	for _, c := range []struct {
		name   string
		value  float32
		recipe model.Recipe
		text   string // text is a part of the expected error, or empty if no error is expected
	}{
		{"NaN", float32(math.NaN()), f32, "is NaN: the file is damaged"},
		{"infinity", float32(math.Inf(-1)), f32, "is -Inf: the file is damaged"},
		{"largest f32", math.MaxFloat32, f32, ""},
		{"NaN in f16", float32(math.NaN()), f16, "is NaN: the file is damaged"},
		{"overflow of f16", 65520, f16, "is 65520, which is too large for f16: use recipe f32"},
		{"negative overflow of f16", -65520, f16, "is -65520, which is too large for f16: use recipe f32"},
		{"rounds to the largest f16", 65519, f16, ""},
		{"vanishes in f16", 1e-30, f16, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := modeltest.New(rand.New(rand.NewPCG(3, 4)), "llama", quant.F32, true)
			data := m.Tensor("blk.0.attn_k.weight").Data
			binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(c.value))
			w := constant(t, load(t, m), c.recipe, "blk.0.attn_k.weight")
			err := w.Values.Fill(make([]byte, w.SizeBytes()))
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, model.ErrInvalid)
			last := len(data)/4 - 1
			require.ErrorContains(t, err, fmt.Sprintf("blk.0.attn_k.weight (F32), element %d (row %d, column %d)",
				last, last/m.Hidden, last%m.Hidden))
			require.ErrorContains(t, err, c.text)
		})
	}
}

// TestHugeIntegerWeightsAreRejectedByName uses weights that integers with a scale can
// represent, but the float16 numbers that the NPU computes with cannot.
func TestHugeIntegerWeightsAreRejectedByName(t *testing.T) {
	for _, c := range []struct {
		value float32
		text  string // text is a part of the expected error, or empty if no error is expected
	}{{65519, ""}, {65520, "is 65520, which is too large for f16: use recipe f32"}, {-1e30, "is -1e+30, which is too large"}} {
		m := modeltest.New(rand.New(rand.NewPCG(3, 4)), "llama", quant.F32, true)
		data := m.Tensor("blk.0.attn_k.weight").Data
		binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(c.value))
		loaded := load(t, m)
		for _, recipe := range quantized(t, loaded) {
			w := constant(t, loaded, recipe, "blk.0.attn_k.weight")
			_, err := w.Fill(make([]byte, w.SizeBytes()))
			if c.text == "" {
				require.NoError(t, err, recipe.Name)
				continue
			}
			require.ErrorIs(t, err, model.ErrInvalid, recipe.Name)
			require.ErrorContains(t, err, fmt.Sprintf("blk.0.attn_k.weight (F32), element %d", len(data)/4-1), recipe.Name)
			require.ErrorContains(t, err, c.text, recipe.Name)
		}
	}
}

func TestInfiniteF16WeightsAreRejectedByName(t *testing.T) {
	for _, bits := range []uint16{0x7c00, 0xfc00, 0x7e00, 0xfdff} {
		m := modeltest.New(rand.New(rand.NewPCG(3, 4)), "qwen2", quant.F16, true)
		data := m.Tensor("blk.0.ffn_up.weight").Data
		binary.LittleEndian.PutUint16(data[10:], 0x7bff) // the file also holds the largest finite float16, which is allowed
		binary.LittleEndian.PutUint16(data[len(data)-2:], bits)
		for _, recipe := range model.Recipes[:2] { // the first two of model.Recipes compute in floating point
			w := constant(t, load(t, m), recipe, "blk.0.ffn_up.weight")
			err := w.Values.Fill(make([]byte, w.SizeBytes()))
			require.ErrorIs(t, err, model.ErrInvalid, "%04x", bits)
			require.ErrorContains(t, err, fmt.Sprintf("blk.0.ffn_up.weight (F16), element %d ", len(data)/2-1))
			require.ErrorContains(t, err, "the file is damaged")
		}
	}
}

func TestFillChecksLength(t *testing.T) {
	m := load(t, modeltest.New(rand.New(rand.NewPCG(3, 4)), "llama", quant.F32, true))
	w := constant(t, m, model.Recipes[0], "blk.0.ffn_up.weight")
	require.Error(t, w.Values.Fill(make([]byte, w.SizeBytes()-1)))
	require.Error(t, w.Values.Fill(make([]byte, w.SizeBytes()+1)))
}

func TestFillTakesLittleMemory(t *testing.T) {
	m := modeltest.New(rand.New(rand.NewPCG(3, 4)), "llama", quant.F16, true)
	m.Hidden, m.FFN = 64, 1024 // eight chunks
	w := constant(t, load(t, m.Rebuild()), model.Recipes[1], "blk.0.ffn_up.weight")
	dst := make([]byte, w.SizeBytes())
	require.LessOrEqual(t, testing.AllocsPerRun(5, func() {
		if err := w.Values.Fill(dst); err != nil {
			panic(err)
		}
	}), 2.0)
}

func TestEmbedLooksUpRows(t *testing.T) {
	m := modeltest.New(rand.New(rand.NewPCG(5, 6)), "llama", quant.Q8_0, true)
	loaded := load(t, m)
	tokens := []int32{int32(m.Vocab - 1), 0, 3, 0}
	var want []float32
	for _, token := range tokens {
		for _, v := range m.Weights["token_embd.weight"][int(token)*m.Hidden:][:m.Hidden] {
			want = append(want, float32(v))
		}
	}
	for _, r := range model.Recipes[:2] { // the first two of model.Recipes compute in floating point
		dst := make([]byte, len(tokens)*m.Hidden*r.Activations.Size())
		require.NoError(t, loaded.Embed(dst, tokens, r))
		require.Equal(t, backendtest.Encode(want, r.Activations), dst)
		for _, token := range []int32{-1, int32(m.Vocab), math.MaxInt32, math.MinInt32} {
			err := loaded.Embed(dst[:m.Hidden*r.Activations.Size()], []int32{token}, r)
			require.ErrorIs(t, err, model.ErrToken)
		}
		require.Error(t, loaded.Embed(dst[1:], tokens, r))
		require.NoError(t, loaded.Embed(nil, nil, r))
	}
	err := loaded.Embed(make([]byte, m.Hidden), []int32{0}, model.Recipe{Activations: backend.Bool8})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestRopeComputesAnglesOfPositions(t *testing.T) {
	positions := []int32{0, 1, 9, 8191, 131071}
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range 60 {
		m := modeltest.New(rng, modeltest.Families[round%len(modeltest.Families)], quant.F32, true)
		loaded := load(t, m)
		layer, context := rng.IntN(m.Layers), 1+rng.IntN(40)
		view := loaded.Views(context)[0]
		magnitude := m.Magnitude
		if m.Local != nil && m.Local[layer] {
			view = loaded.Views(context)[1]
		}
		half := m.RopeDim() / 2
		var wantCos, wantSin []float32
		for _, p := range positions {
			for j := range half {
				angle := float64(p) * m.Frequency(layer, j, context)
				wantCos = append(wantCos, float32(magnitude*math.Cos(angle)))
				wantSin = append(wantSin, float32(magnitude*math.Sin(angle)))
			}
		}
		for i, tolerance := range []float64{1e-3, 2e-7} {
			r := model.Recipes[i]
			size := len(positions) * half * r.Activations.Size()
			cos, sin := make([]byte, size), make([]byte, size)
			view.Rope(cos, sin, positions, r)
			require.InDeltaSlice(t, wantCos, backendtest.Decode(cos, r.Activations), tolerance, "%s in %s", m.Arch, r.Name)
			require.InDeltaSlice(t, wantSin, backendtest.Decode(sin, r.Activations), tolerance, "%s in %s", m.Arch, r.Name)
			require.Panics(t, func() { view.Rope(cos[2:], sin, positions, r) })
		}
	}
}
