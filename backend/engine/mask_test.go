package engine

import (
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

// randomPlan draws trees of two sequences.
func randomPlan(rng *rand.Rand, context int) *plan {
	pl := &plan{width: 1 + rng.IntN(12), bases: map[int]int{0: rng.IntN(context), 1: rng.IntN(context)}}
	last := map[int]int{0: Root, 1: Root}
	for i := range 1 + rng.IntN(pl.width) {
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
	return pl
}

func TestTheMaskShowsAncestorsAndTheOwnSequenceWithinTheWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const groups, context, slots = 3, 7, 14
	hiddenByWindow := 0
	for range 500 {
		pl := randomPlan(rng, context)
		columns := slots + pl.width
		hidden := make([]byte, columns+5)
		for i := range hidden {
			hidden[i] = 9
		}
		mask := make([]byte, groups*pl.width*columns)
		window := rng.IntN(context + 3)
		pl.fillMask(mask, hidden, model.View{Window: window}, groups, context, slots, 1)
		for i, v := range mask {
			row, column := i/columns%pl.width, i%columns
			want := visible(pl, row, column, context, slots, window)
			require.Equal(t, want, v == 0, "window %d, row %d, column %d of %+v", window, row, column, pl)
			if !want && visible(pl, row, column, context, slots, 0) {
				hiddenByWindow++
			}
		}
	}
	require.Positive(t, hiddenByWindow)
}
