package heads

import "github.com/sdnpu/sdnpu/backend/sparse"

// Text holds a text's tokens, and the keys and values of the tokens that were computed.
type Text struct {
	Tokens []int32
	dim    int
	// keys and values hold rows of all tokens, indexed (layer, key head).
	keys, values [][][]float32
}

// NewText returns a text whose keys and values are not computed yet.
func (m *Model) NewText(tokens []int32) *Text {
	c := m.config
	t := &Text{Tokens: tokens, dim: c.HeadDim}
	rows := func() [][][]float32 {
		all := make([][][]float32, c.Layers)
		for l := range all {
			for range c.KVHeads {
				all[l] = append(all[l], make([]float32, len(tokens)*c.HeadDim))
			}
		}
		return all
	}
	t.keys, t.values = rows(), rows()
	return t
}

// Keys returns the keys of all tokens for a key head of a layer. Keys of tokens that were not
// computed are zero.
func (t *Text) Keys(layer, head int) sparse.Rows {
	return sparse.Rows{F32: t.keys[layer][head], Stride: t.dim}
}

// Values returns the values of all tokens, as Keys does.
func (t *Text) Values(layer, head int) sparse.Rows {
	return sparse.Rows{F32: t.values[layer][head], Stride: t.dim}
}

// Row is a token of a text that a pass computes.
type Row struct {
	Text     *Text
	Position int
}

// Span returns rows for the tokens [from, to) of a text.
func (t *Text) Span(from, to int) (rows []Row) {
	for p := from; p < to; p++ {
		rows = append(rows, Row{t, p})
	}
	return rows
}
