package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// Embed writes the embeddings of tokens to dst, which needs room for len(tokens)×hidden
// elements of the recipe's activation type. If a token is outside the vocabulary, the
// error wraps [ErrToken], and dst holds the rows of the tokens before it.
func (m *Model) Embed(dst []byte, tokens []int32, r Recipe) error {
	table := *m.global[embedding] // the table is a copy with a scale of its own, because the head may use the table without a scale
	table.scale = float32(m.config.EmbeddingScale)
	rowSize := table.columns * r.Activations.Size()
	if len(dst) != len(tokens)*rowSize {
		return fmt.Errorf("model: embeddings of %d tokens need %d bytes: dst has %d", len(tokens), len(tokens)*rowSize, len(dst))
	}
	scratch := make([]float32, table.columns)
	for i, token := range tokens {
		if token < 0 || int(token) >= table.rows {
			return fmt.Errorf("model: %w: token=%d: want less than %d", ErrToken, token, table.rows)
		}
		if err := table.convert(dst[i*rowSize:(i+1)*rowSize], r.Activations, int(token), scratch); err != nil {
			return err
		}
	}
	return nil
}

// put writes the number v to dst as element i.
func put(dst []byte, i int, v float64, t backend.DataType) {
	if t == backend.Float16 {
		binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(float32(v)))
		return
	}
	binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
}
