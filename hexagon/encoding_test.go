package hexagon

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

func TestBlockwiseExpansionKeepsTheMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 50 {
		block, blocks, outputs := 1+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(9)
		m := &backend.Tensor{
			Type: backend.Sfixed8, Kind: backend.Constant, Shape: []int{outputs, block * blocks},
			Encoding: backend.Encoding{Grain: backend.PerRow, Block: block, Bits: 4},
		}
		elements, scales := make([]byte, m.Elements()), make([]backend.ScaleOffset, outputs)
		for i := range elements {
			if i%block == 0 {
				scales[i/(block*blocks)].Scale = rng.Float32() + 0.1
			}
			elements[i] = byte((1 + (i/block*7)%16) * (rng.IntN(16) - 8))
		}
		data, q, err := blockwiseExpansion(m, elements, scales)
		require.NoError(t, err)
		require.Len(t, q.BlockScales, outputs*blocks)
		for i, want := range elements {
			output, input := i/(block*blocks), i%(block*blocks)
			code := int8(data[input*outputs+output])
			require.True(t, code >= -8 && code <= 7)
			require.Equal(t, int8(want), code*int8(q.BlockScales[i/block]))
			require.Equal(t, scales[output].Scale, q.Scales[output])
		}
	}
}

func TestElementsWithoutBlockScaleAreRejected(t *testing.T) {
	for _, wrong := range [][]int8{{127, 0}, {9, 1}, {-128, 112, 1}, {113}} {
		block := make([]byte, len(wrong))
		for i, v := range wrong {
			block[i] = byte(v)
		}
		_, err := blockScale(block, 4)
		require.ErrorIs(t, err, errBlockScale, wrong)
	}
	m, err := blockScale([]byte{0x80, 112, 0}, 4) // as an element of 8 bits, 0x80 is -128
	require.NoError(t, err)
	require.Equal(t, int8(16), m)
}
