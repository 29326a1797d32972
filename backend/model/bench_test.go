package model_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

func BenchmarkFill(b *testing.B) {
	for _, format := range []quant.Type{quant.F32, quant.F16, quant.Q8_0} {
		m := modeltest.New(rand.New(rand.NewPCG(1, 2)), "llama", format, true)
		m.Layers, m.Hidden, m.FFN = 1, 512, 1024
		loaded := load(b, m.Rebuild())
		for _, recipe := range model.Recipes[:2] { // the first two of model.Recipes compute in floating point
			b.Run(format.String()+" to "+recipe.Name, func(b *testing.B) {
				w := constant(b, loaded, recipe, "blk.0.ffn_up.weight")
				dst := make([]byte, w.SizeBytes())
				b.SetBytes(int64(len(dst)))
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, w.Values.Fill(dst))
				}
			})
		}
	}
}

func BenchmarkRope(b *testing.B) {
	m := modeltest.New(rand.New(rand.NewPCG(1, 2)), "qwen2", quant.F32, true)
	m.Dim = 64
	loaded := load(b, m.Rebuild())
	positions := make([]int32, 128)
	for i := range positions {
		positions[i] = int32(4000 + i)
	}
	cos, sin := make([]byte, 128*32*2), make([]byte, 128*32*2)
	b.ReportAllocs()
	for b.Loop() {
		loaded.Views(0)[0].Rope(cos, sin, positions, model.Recipes[0])
	}
}
