package queue

import (
	"math/rand/v2"
	"testing"

	"github.com/sdnpu/sdnpu/backend/engine/settings"
	"github.com/stretchr/testify/require"
)

// TestEveryRequestGetsItsTurn plays random items, some of which always return to the
// queue, and checks the rule: the first item has a row in each pass, and a pass has as
// many rows as chunk returns.
func TestEveryRequestGetsItsTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		widths := [][]int{{128, 1}, {128, 4, 1}, {32, 8, 1}, {1}, {16}}[rng.IntN(5)]
		chunks := settings.PlanChunks(&settings.Shape{Rows: widths})
		chunk := func(n int) int { return chunks[min(n, widths[0])] }
		q := New()
		waited := map[*Item]int{}
		var items []*Item
		for i := range 1 + rng.IntN(6) {
			w := &Item{Sequence: i, Tokens: make([]int32, 1+rng.IntN(1+rng.IntN(300)))}
			items = append(items, w)
			q.Enter()
			q.Add(w)
		}
		for range 100 {
			waiting, first, want := 0, q.Items[0], chunk(q.Waiting())
			for _, w := range items {
				waiting += len(w.Tokens)
			}
			require.Equal(t, waiting, q.Waiting())
			rows := q.Take(func([]*Item) Ration { return Ration{Rows: chunk(q.Waiting())} })
			require.Equal(t, first, rows[0].Item)
			taken := map[*Item]bool{}
			for _, s := range rows {
				require.Positive(t, s.N)
				require.LessOrEqual(t, s.N, len(s.Item.Tokens))
				require.False(t, taken[s.Item])
				taken[s.Item] = true
				want -= s.N
			}
			require.Zero(t, want)
			for _, w := range items {
				if waited[w]++; taken[w] {
					waited[w] = 0
				}
				require.Less(t, waited[w], len(items), "each item has a turn before one has two")
			}
			turn := q.ReserveTurns(len(rows))
			for _, i := range rng.Perm(len(rows)) { // requests settle in any order
				w := rows[i].Item
				// the item's request draws the next token
				if w.Tokens = w.Tokens[rows[i].N:]; len(w.Tokens) == 0 {
					w.Tokens = make([]int32, 1)
				}
				q.PutBack(w, turn+uint64(i))
			}
			for i, s := range rows {
				require.Equal(t, s.Item, q.Items[len(q.Items)-len(rows)+i], "items keep their order")
			}
		}
	}
}

func TestItemsAddedDuringAPassComeBeforeThoseThatReturn(t *testing.T) {
	q := New()
	returning, during, after := &Item{}, &Item{}, &Item{}
	q.Add(returning)
	q.TakeItem(returning)
	q.Add(during)
	turn := q.ReserveTurns(1)
	q.Add(after)
	q.PutBack(returning, turn)
	require.Equal(t, []*Item{during, returning, after}, q.Items)
}
