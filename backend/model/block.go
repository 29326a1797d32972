package model

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// The names of a graph's ports. Those of a layer's cache come from [PastKey],
// [PastValue], [NewKey] and [NewValue], those of masks and angles from
// [Model.Views].
const (
	PortX      = "x"
	PortY      = "y"
	PortLogits = "logits"
	// PortTop and PortTopIndices are the largest logits of each row, the largest
	// first, and the tokens they belong to; PortShare is the probability of the
	// first of them at temperature 1.
	PortTop        = "top"
	PortTopIndices = "top_indices"
	PortShare      = "share"
)

// MaskValue hides a slot from a row: the least finite float16. Added to a
// score it leaves a probability of exactly zero, as long as the row sees at
// least one slot.
const MaskValue = -65504

// PastKey names the port of a layer's past keys; layers count from the start
// of the model, not of the block.
func PastKey(layer int) string { return fmt.Sprintf("past_k%d", layer) }

// PastValue names the port of a layer's past values.
func PastValue(layer int) string { return fmt.Sprintf("past_v%d", layer) }

// NewKey names the port of the keys that a layer adds.
func NewKey(layer int) string { return fmt.Sprintf("new_k%d", layer) }

// NewValue names the port of the values that a layer adds.
func NewValue(layer int) string { return fmt.Sprintf("new_v%d", layer) }

// Block asks for a run of layers as one graph.
type Block struct {
	// Name is the graph's.
	Name string
	// The layers [First,End).
	First, End int
	// Rows is M, the width of the graph; Context is C, its past slots.
	Rows, Context int
	Recipe        Recipe
	// Observe makes inputs and results of all projections outputs too, under
	// their names in [Ranges]. Only recipes without integers take it.
	Observe bool
}

// Head asks for the way from hidden states to logits.
type Head struct {
	// Name is the graph's.
	Name string
	Rows int
	// Top is how many of the largest logits the graph gives beside all of them.
	// Zero is none; more than the vocabulary has is all of them in order.
	Top     int
	Recipe  Recipe
	Observe bool // as in Block
}

// Block writes layers as a graph; the package comment describes its ports. A
// block that the model does not have is [ErrRange].
func (m *Model) Block(b Block) (*backend.Graph, error) {
	if err := b.Recipe.check(); err != nil {
		return nil, err
	}
	if b.First < 0 || b.First >= b.End || b.End > m.config.Layers || !inRange(b.Rows) || !inRange(b.Context) {
		return nil, fmt.Errorf("model: block %q: %w: layers %d to %d of %d, %d rows, %d past slots",
			b.Name, ErrRange, b.First, b.End, m.config.Layers, b.Rows, b.Context)
	}
	w := newWriter(m, b.Name, b.Recipe, b.Rows, b.Context)
	w.watch(b.Observe)
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
		return nil, fmt.Errorf("model: head %q: %w: %d rows, the best %d", h.Name, ErrRange, h.Rows, h.Top)
	}
	w := newWriter(m, h.Name, h.Recipe, h.Rows, 0)
	w.projections = h.Recipe.head()
	w.watch(h.Observe)
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

// top adds what is known of rows of logits without reading them. The largest
// share is taken by a TopK as long as that of the logits: the vendor's library
// picks one element of a row of 49 152 forty times slower than 128 of them.
func (w *writer) top(logits backend.TensorID, k int) {
	values, indices := w.TopK(PortTop, logits, k)
	w.Output(values)
	w.Output(indices)
	shares, _ := w.TopK("shares", w.Apply("softmax", backend.Softmax, []backend.TensorID{logits}), k)
	w.Output(w.Slice(PortShare, shares, 1, 0, 1))
}

// inRange bounds what a caller asks for, so that shapes do not overflow.
func inRange(n int) bool { return n >= 1 && n <= maxSize }
