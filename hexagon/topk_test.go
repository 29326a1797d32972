package hexagon

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// TestTopKIsExactForWholeVocabularies: values are those of a sort, bit for bit,
// and every index says where its value stands, whichever of equals were taken.
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
						require.False(t, seen[index], "row %d: %d is there twice", r, index)
						seen[index] = true
						require.Equal(t, row[i], half(y, r*k+i), "row %d, place %d", r, i)
						require.Equal(t, row[i], half(x, r*c.vocabulary+int(index)), "row %d, place %d", r, i)
					}
				}
			})
		}
	})
}
