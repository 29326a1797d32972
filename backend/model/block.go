package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// The names of a graph's ports. [PastKey], [PastValue], [NewKey] and [NewValue] return the names of
// a layer's cache ports. [Model.Views] has the names of masks and angles.
const (
	PortX      = "x"
	PortY      = "y"
	PortLogits = "logits"
	// PortTop and PortTopIndices are the largest logits of each row, the
	// largest first, and their tokens. PortShare is the probability of the
	// first one at temperature 1.
	PortTop        = "top"
	PortTopIndices = "top_indices"
	PortShare      = "share"
)

// MaskValue hides a slot from a row. It is the least finite float16: added to a
// score, it gives a probability of exactly zero if the row sees at least one
// slot.
const MaskValue = -65504

// HiddenRow returns a row of a mask that hides n slots: n elements of [MaskValue].
func HiddenRow(n int, t backend.DataType) []byte {
	var b []byte
	for range n {
		if t == backend.Float16 {
			b = binary.LittleEndian.AppendUint16(b, quant.F32ToF16(MaskValue))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(MaskValue))
		}
	}
	return b
}

// PastKey returns the name of the port of a layer's past keys. Layers count
// from the start of the model, not of the block.
func PastKey(layer int) string { return fmt.Sprintf("past_k%d", layer) }

// PastValue returns the name of the port of a layer's past values.
func PastValue(layer int) string { return fmt.Sprintf("past_v%d", layer) }

// NewKey returns the name of the port of the keys that a layer adds.
func NewKey(layer int) string { return fmt.Sprintf("new_k%d", layer) }

// NewValue returns the name of the port of the values that a layer adds.
func NewValue(layer int) string { return fmt.Sprintf("new_v%d", layer) }

// Block describes a run of layers as one graph.
type Block struct {
	// Name is the graph's name.
	Name string
	// First and End bound the layers [First,End).
	First, End int
	// Rows is the width M of the graph. Context is its number of past slots C.
	Rows, Context int
	Recipe        Recipe
	// Observe adds the inputs and results of all projections as outputs, under
	// their names in [Ranges]. Recipes with integers do not support it.
	Observe bool
}

// Head describes the graph from hidden states to logits.
type Head struct {
	// Name is the graph's name.
	Name string
	Rows int
	// Top is the number of largest logits that the graph returns in addition to
	// all logits. Zero means none. It is limited to the vocabulary.
	Top     int
	Recipe  Recipe
	Observe bool // as in Block
}

// Block writes layers as a graph. The package documentation describes its
// ports. If the model does not have the block, the error wraps [ErrRange].
func (m *Model) Block(b Block) (*backend.Graph, error) {
	if err := b.Recipe.check(); err != nil {
		return nil, err
	}
	if b.First < 0 || b.First >= b.End || b.End > m.config.Layers || !inRange(b.Rows) || !inRange(b.Context) {
		return nil, fmt.Errorf("model: block %q: %w: layers %d to %d of %d, %d rows, %d past slots",
			b.Name, ErrRange, b.First, b.End, m.config.Layers, b.Rows, b.Context)
	}
	w := newWriter(m, b.Name, b.Recipe, b.Rows, b.Context)
	w.startObserving(b.Observe)
	w.inLayers = true
	t := b.Recipe.Activations
	x := w.Input(PortX, t, w.rows, m.config.Hidden)
	w.declareViews(b.First, b.End)
	if !b.Recipe.Cache.Fixed() {
		w.plainQueryScale()
	}
	for i := b.First; i < b.End; i++ {
		name := PortY
		if i < b.End-1 {
			name = fmt.Sprintf("layer%d", i)
		}
		x = w.layer(name, i, x)
	}
	w.Output(x)
	return w.Graph()
}

// Head writes the final normalisation and the projection to the vocabulary:
// x [Rows,hidden] → logits [Rows,vocabulary] and, with a Top of k, top and
// top_indices [Rows,k] and share [Rows,1].
func (m *Model) Head(h Head) (*backend.Graph, error) {
	if err := h.Recipe.check(); err != nil {
		return nil, err
	}
	if !inRange(h.Rows) || h.Top < 0 {
		return nil, fmt.Errorf("model: head %q: %w: %d rows, top %d", h.Name, ErrRange, h.Rows, h.Top)
	}
	w := newWriter(m, h.Name, h.Recipe, h.Rows, 0)
	w.projections = h.Recipe.head()
	w.startObserving(h.Observe)
	x := w.Input(PortX, h.Recipe.Activations, w.rows, m.config.Hidden)
	x = w.norm("norm", x, m.global[finalNorm])
	projection := m.global[output]
	if projection == nil {
		projection = m.global[embedding]
	}
	logits := w.linear(PortLogits, x, projection, nil)
	if !w.observed[logits] {
		w.Output(logits)
	}
	if h.Top > 0 {
		w.top(logits, min(h.Top, m.config.Vocab))
	}
	return w.Graph()
}

// top adds the outputs that describe rows of logits. The largest share comes from a TopK that is as
// long as the TopK of the logits: the vendor's library picks one element of a row of 49152 forty
// times more slowly than 128 of them.
func (w *writer) top(logits backend.TensorID, k int) {
	values, indices := w.TopK(PortTop, logits, k)
	w.Output(values)
	w.Output(indices)
	shares, _ := w.TopK("shares", w.Apply("softmax", backend.Softmax, []backend.TensorID{logits}), k)
	w.Output(w.Slice(PortShare, shares, 1, 0, 1))
}

// inRange bounds a caller's number, so that shapes do not overflow.
func inRange(n int) bool { return n >= 1 && n <= maxSize }
