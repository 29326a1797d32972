package buffers

import (
	"github.com/sdnpu/sdnpu/backend/engine/kvcache"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Root is the parent of a row that directly follows the committed tokens of its
// sequence.
const Root = -1

// Rows describes the rows of a pass, as far as masks depend on them. Each Go slice in Rows
// has one element per row of the pass.
type Rows struct {
	// Sequences holds the number of the sequence of each row. Parents holds, for each
	// row, the row before it in the same pass, or [Root].
	Sequences, Parents []int
	// Positions holds the position of each row's token.
	Positions []int32
	// Slots is used if a block computes the pass in slices of rows. Slots holds the
	// cache position for each row: the nth row of a sequence takes the nth free slot of
	// that sequence.
	Slots []int
	// Bases holds, for each sequence, the number of its tokens that are in the KV
	// cache.
	Bases map[int]int
}

// Add appends a row with the given sequence, parent, position and slot.
func (r *Rows) Add(sequence, parent int, position int32, slot int) {
	r.Sequences, r.Parents = append(r.Sequences, sequence), append(r.Parents, parent)
	r.Positions, r.Slots = append(r.Positions, position), append(r.Slots, slot)
}

// Fill writes the angles and masks of one slice of a pass's rows, for graphs of the given
// width. Slice number part begins at row part*width of the pass. If one execute of a graph
// computes a whole pass, the pass has one slice.
func (b *Buffers) Fill(rows *Rows, width, part, parts int) {
	set := &b.whole
	if parts > 1 {
		set = &b.parts[part]
	}
	if set.filled == rows {
		return
	}
	set.filled = rows
	c, first := b.config.Model, part*width
	element, groups := b.config.Recipe.Activations.Size(), c.Heads/c.KVHeads
	positions := make([]int32, width)
	copy(positions, rows.Positions[first:])
	angles, layout := width*c.RopeDim/2*element, b.cache.Layout()
	for i, v := range b.config.Views {
		in := &set.views[i]
		v.Rope(in.cos.Bytes(angles), in.sin.Bytes(angles), positions, b.config.Recipe)
		mask := in.mask.Bytes(groups * width * (layout.Slots() + width) * element)
		rows.fillMask(mask, b.blind, v, layout, element, groups, first, width)
	}
}

// fillMask writes the mask of n rows of the pass for one kind of attention, starting at row
// `first`: groups*n mask rows of slots+n columns. Earlier rows of the pass are in the KV
// cache when the graph runs, so the mask shows the slots of those earlier rows that are
// ancestors. blind is a mask row that hides every slot.
func (r *Rows) fillMask(mask, blind []byte, v model.View, layout kvcache.Layout, element, groups, first, n int) {
	slots := layout.Slots()
	stride := (slots + n) * element
	for i := range n {
		row := mask[i*stride : (i+1)*stride]
		show := func(from, to int) { clear(row[from*element : to*element]) }
		copy(row, blind)
		show(slots+i, slots+i+1) // in the mask, each row sees itself, even a padding row
		if first+i >= len(r.Parents) {
			continue
		}
		own := layout.Slot(r.Sequences[first+i], 0)
		base, oldest := r.Bases[r.Sequences[first+i]], v.Oldest(r.Positions[first+i])
		if oldest < base { // a sequence keeps its tokens in slots in order of position
			show(own+oldest, own+base)
		}
		for j := r.Parents[first+i]; j != Root && int(r.Positions[j]) >= oldest; j = r.Parents[j] {
			column := slots + j - first
			if j < first {
				column = own + r.Slots[j]
			}
			show(column, column+1)
		}
	}
	for g := 1; g < groups; g++ {
		copy(mask[g*n*stride:(g+1)*n*stride], mask[:n*stride])
	}
}
