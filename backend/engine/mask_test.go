package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/model"
)

// visible is the obvious version of the mask: the row's ancestors, the own
// sequence's slots, and of both those that the window reaches.
func visible(pl *plan, row, column, context, slots, window int) bool {
	near := func(position int) bool { return window == 0 || position > int(pl.positions[row])-window }
	if j := column - slots; j >= 0 {
		ancestor := row
		for ancestor != j && ancestor < len(pl.rows) && pl.rows[ancestor].Parent != Root {
			ancestor = pl.rows[ancestor].Parent
		}
		return j == row || ancestor == j && near(int(pl.positions[j]))
	}
	if row >= len(pl.rows) {
		return false
	}
	sequence := pl.rows[row].Sequence
	position := column - sequence*context // slots hold a sequence in order
	return position >= 0 && position < pl.bases[sequence] && near(position)
}

// randomPlan draws trees of two sequences, to run on graphs of a width.
func randomPlan(rng *rand.Rand, context int) (pl *plan, width int) {
	width = 1 + rng.IntN(12)
	pl = &plan{bases: map[int]int{0: rng.IntN(context), 1: rng.IntN(context)}}
	last := map[int]int{0: Root, 1: Root}
	for i := range 1 + rng.IntN(width) {
		s := rng.IntN(2)
		parent := last[s]
		for parent != Root && rng.IntN(2) == 0 {
			parent = pl.rows[parent].Parent
		}
		position := int32(pl.bases[s])
		if parent != Root {
			position = pl.positions[parent] + 1
		}
		pl.rows, pl.positions = append(pl.rows, Row{Sequence: s, Parent: parent}), append(pl.positions, position)
		last[s] = i
	}
	return pl, width
}

func TestTheMaskShowsAncestorsAndTheOwnSequenceWithinTheWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const groups, context, slots = 3, 7, 14
	hiddenByWindow := 0
	for range 500 {
		pl, width := randomPlan(rng, context)
		columns := slots + width
		mask := make([]byte, groups*width*columns)
		window := rng.IntN(context + 3)
		pl.fillMask(mask, hiddenBytes(columns+5), model.View{Window: window}, cacheShape{context, slots, 1}, groups, 0, width)
		for i, v := range mask {
			row, column := i/columns%width, i%columns
			want := visible(pl, row, column, context, slots, window)
			require.Equal(t, want, v == 0, "window %d, row %d, column %d of %+v", window, row, column, pl)
			if !want && visible(pl, row, column, context, slots, 0) {
				hiddenByWindow++
			}
		}
	}
	require.Positive(t, hiddenByWindow)
}

func hiddenBytes(n int) []byte { return bytes.Repeat([]byte{9}, n) }

func TestTheMasksOfPartsShowTogetherWhatThatOfTheWholePassShows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const groups, context, slots = 2, 40, 80
	inSlots := 0
	for range 500 {
		pl, _ := randomPlan(rng, context-12)
		seen := make(map[int]int)
		for _, r := range pl.rows {
			pl.slots = append(pl.slots, pl.bases[r.Sequence]+seen[r.Sequence])
			seen[r.Sequence]++
		}
		m, window := 1+rng.IntN(5), rng.IntN(context)
		for first := 0; first < len(pl.rows); first += m {
			columns := slots + m
			mask := make([]byte, groups*m*columns)
			pl.fillMask(mask, hiddenBytes(columns), model.View{Window: window}, cacheShape{context, slots, 1}, groups, first, m)
			for i, v := range mask {
				row, column := first+i/columns%m, i%columns
				wholeColumn := column // of the mask that all rows have together
				if column >= slots {
					wholeColumn += first
				}
				for j := range min(first, len(pl.rows)) { // earlier rows lie in slots
					if column == pl.rows[j].Sequence*context+pl.slots[j] {
						wholeColumn = slots + j
						inSlots++
					}
				}
				want := visible(pl, row, wholeColumn, context, slots, window)
				require.Equal(t, want, v == 0, "parts of %d, window %d, row %d, column %d of %+v", m, window, row, column, pl)
			}
		}
	}
	require.Positive(t, inSlots)
}
