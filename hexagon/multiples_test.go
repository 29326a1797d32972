package hexagon

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

func TestAMatrixOfMultiplesMeansTheSameToQNN(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 50 {
		block, blocks, outputs := 1+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(9)
		m := &backend.Tensor{
			Type: backend.Sfixed8, Kind: backend.Constant, Shape: []int{outputs, block * blocks},
			Encoding: backend.Encoding{Grain: backend.PerRow, Block: block, Bits: 4},
		}
		elements, steps := make([]byte, m.Elements()), make([]backend.Step, outputs)
		for i := range elements {
			if i%block == 0 {
				steps[i/(block*blocks)].Scale = rng.Float32() + 0.1
			}
			elements[i] = byte((1 + (i/block*7)%16) * (rng.IntN(16) - 8))
		}
		data, q, err := multiplied(m, elements, steps)
		require.NoError(t, err)
		require.Len(t, q.BlockScales, outputs*blocks)
		for i, want := range elements {
			output, input := i/(block*blocks), i%(block*blocks)
			code := int8(data[input*outputs+output])
			require.True(t, code >= -8 && code <= 7)
			require.Equal(t, int8(want), code*int8(q.BlockScales[i/block]))
			require.Equal(t, steps[output].Scale, q.Scales[output])
		}
	}
}

func TestElementsThatNoMultiplesMakeAreRefused(t *testing.T) {
	for _, wrong := range [][]int8{{127, 0}, {9, 1}, {-128, 112, 1}, {113}} {
		block := make([]byte, len(wrong))
		for i, v := range wrong {
			block[i] = byte(v)
		}
		_, err := multiple(block, 4)
		require.ErrorIs(t, err, errMultiples, wrong)
	}
	m, err := multiple([]byte{0x80, 112, 0}, 4) // -128
	require.NoError(t, err)
	require.Equal(t, int8(16), m)
}
