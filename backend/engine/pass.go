package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// Root is the Parent of rows that follow a sequence's committed tokens.
const Root = -1

// Pass is what the graphs compute at once.
type Pass struct {
	Rows []Row
	// Width is how many rows the graphs have at least: 0 for those that hold Rows.
	Width int
}

// Row is one token of a pass.
type Row struct {
	// Token is an id of the vocabulary.
	Token int32
	// Sequence is the text it continues, below [Options].Sequences.
	Sequence int
	// Parent is the index of the row before this one, which stands earlier in
	// the pass and belongs to the same sequence, or [Root]. Rows of one parent
	// are alternatives and do not see each other.
	Parent int
	// Logits asks for the logits of what follows this row, Top for the best of
	// them, which costs the host less. An engine without tops gives Logits then.
	Logits, Top bool
}

// Result is what a pass gave.
type Result struct {
	// Logits has an entry per row of the pass, nil where none were asked for.
	// They are valid until the next pass.
	Logits [][]float32
	// Top has an entry per row, without tokens where none was asked for.
	Top []sampler.Top
	// ValidRows and PaddingRows count rows of the blocks' graphs.
	ValidRows, PaddingRows int
	// virtual is the device's time of all runs, where that is not ours.
	virtual time.Duration
	// Ops counts graph operators run per lane.
	Ops   map[backend.Lane]int64
	took  time.Duration
	began time.Time
}

// plan is a pass whose rows have been checked.
type plan struct {
	rows []Row
	// width is how many rows the graphs have at least.
	width     int
	positions []int32
	// slots are the places of the rows behind their sequence's committed tokens
	// while a block computes them part by part: nth row of its sequence, nth slot.
	slots []int
	// fresh is where the keys and values of each layer lie.
	fresh []freshRows
	// chunk is the chunk of the prompt, whose plan is carried out, that the pass
	// is; unplanned for any other pass.
	chunk int
	// inSlots tells that keys and values are in the slots where they belong, as
	// each block has put them there.
	inSlots bool
	// length is the context that its rows need.
	length int
	// bases holds, per sequence of the pass, the committed tokens that its rows
	// follow. What is committed or taken back leaves the map.
	bases map[int]int
	// hidden is where the last block left the rows.
	hidden region
}

// unplanned is the chunk of passes that belong to no plan.
const unplanned = -1

// plan checks a pass against sequences and graphs.
func (e *Engine) plan(p Pass) (*plan, error) { return e.planAhead(p, 0) }

// planAhead is plan for rows that follow some that are not committed yet, but
// in their slots.
func (e *Engine) planAhead(p Pass, ahead int) (*plan, error) {
	widest := e.options.Rows[0]
	if len(p.Rows) < 1 || len(p.Rows) > widest || p.Width > widest {
		return nil, fmt.Errorf("engine: %w: %d rows on graphs of %d at least: 1 to %d wanted", ErrPass, len(p.Rows), p.Width, widest)
	}
	pl := &plan{rows: p.Rows, width: max(p.Width, len(p.Rows)), positions: make([]int32, len(p.Rows)), slots: make([]int, len(p.Rows)), bases: make(map[int]int), chunk: unplanned}
	rows := make(map[int]int)
	for i, r := range p.Rows {
		switch {
		case r.Sequence < 0 || r.Sequence >= e.options.Sequences:
			return nil, fmt.Errorf("engine: %w: row %d: sequence %d of %d", ErrPass, i, r.Sequence, e.options.Sequences)
		case r.Token < 0 || int(r.Token) >= e.config.Vocab:
			return nil, fmt.Errorf("engine: %w: row %d: token %d of %d", ErrPass, i, r.Token, e.config.Vocab)
		case r.Parent < Root || r.Parent >= i || r.Parent >= 0 && p.Rows[r.Parent].Sequence != r.Sequence:
			return nil, fmt.Errorf("engine: %w: row %d: parent %d is no earlier row of its sequence", ErrPass, i, r.Parent)
		}
		base := e.sequences.length(r.Sequence) + ahead
		pl.bases[r.Sequence] = base
		if pl.positions[i] = int32(base); r.Parent >= 0 {
			pl.positions[i] = pl.positions[r.Parent] + 1
		}
		pl.slots[i] = base + rows[r.Sequence]
		rows[r.Sequence]++
		last := int(pl.positions[i])
		if len(p.Rows) > e.options.partRows() {
			last = pl.slots[i]
		}
		pl.length = max(pl.length, last+1)
		if pl.length > e.options.Context {
			return nil, fmt.Errorf("engine: %w: row %d: position %d is behind the context of %d", ErrPass, i, last, e.options.Context)
		}
	}
	return pl, nil
}

// path checks that rows are a chain of the plan from its root on.
func (pl *plan) path(sequence int, rows []int) error {
	parent := Root
	for _, i := range rows {
		if i < 0 || i >= len(pl.rows) || pl.rows[i].Sequence != sequence || pl.rows[i].Parent != parent {
			return fmt.Errorf("engine: %w: rows %v are no path of sequence %d", ErrPass, rows, sequence)
		}
		parent = i
	}
	return nil
}

// cacheShape is how slots lie in memory.
type cacheShape struct {
	context int // of one sequence
	slots   int // of all
	element int // bytes of a mask's element
}

// fillMask writes what m rows of the pass, from row first on, see of a view: the
// mask has groups×m rows of slots+m columns. Earlier rows of the pass are seen
// in their slots. hidden holds a row that sees nothing.
func (pl *plan) fillMask(mask, hidden []byte, v model.View, shape cacheShape, groups, first, m int) {
	slots, element := shape.slots, shape.element
	stride := (slots + m) * element
	for i := range m {
		row := mask[i*stride : (i+1)*stride]
		copy(row, hidden)
		clear(row[(slots+i)*element : (slots+i+1)*element]) // itself, padding too
		if first+i >= len(pl.rows) {
			continue
		}
		r := pl.rows[first+i]
		own := r.Sequence * shape.context
		base, oldest := pl.bases[r.Sequence], v.Oldest(pl.positions[first+i])
		if oldest < base { // slots stand in the order of positions
			clear(row[(own+oldest)*element : (own+base)*element])
		}
		for j := r.Parent; j != Root && int(pl.positions[j]) >= oldest; j = pl.rows[j].Parent {
			column := slots + j - first
			if j < first {
				column = own + pl.slots[j]
			}
			clear(row[column*element : (column+1)*element])
		}
	}
	for g := 1; g < groups; g++ {
		copy(mask[g*m*stride:(g+1)*m*stride], mask[:m*stride])
	}
}

// hiddenRow returns n elements of [model.MaskValue].
func hiddenRow(n int, t backend.DataType) []byte {
	var b []byte
	for range n {
		if t == backend.Float16 {
			b = binary.LittleEndian.AppendUint16(b, quant.F32ToF16(model.MaskValue))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(model.MaskValue))
		}
	}
	return b
}

// decodeFloats converts elements of type t to float32.
func decodeFloats(dst []float32, src []byte, t backend.DataType) error {
	if t == backend.Float16 {
		return quant.DecodeF16(dst, src)
	}
	src = src[:4*len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
	return nil
}
