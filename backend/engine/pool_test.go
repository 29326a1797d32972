package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestThePoolPrefersWhatHoldsThePromptAndSparesTheRest(t *testing.T) {
	held := [][]int32{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 9, 9, 9, 9, 9, 9, 9}, nil}
	for _, tt := range []struct {
		name   string
		prompt []int32
		reuse  bool
		index  int
		common int
	}{
		{"the conversation goes on", []int32{1, 9, 9, 9, 9, 9, 9, 9, 5}, true, 1, 8},
		{"its beginning is asked again", []int32{1, 2, 3, 4}, true, 0, 4},
		{"half of what is held is common", []int32{1, 2, 3, 4, 0, 0, 0, 0, 0, 0}, true, 0, 4},
		{"only the first token is common", []int32{1, 5, 5, 5, 5, 5}, true, 2, 0},
		{"nothing is common", []int32{7, 7}, true, 2, 0},
		{"reuse is not wanted", []int32{1, 9, 9, 9, 9, 9, 9, 9, 5}, false, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(len(held))
			for i, tokens := range held {
				p.extend(i, tokens)
				if tokens != nil {
					p.sequences[i].used = uint64(i + 1)
				}
			}
			index, common, err := p.acquire(t.Context(), tt.prompt, tt.reuse)
			require.NoError(t, err)
			require.Equal(t, tt.index, index)
			require.Equal(t, tt.common, common)
		})
	}
}

func TestAnOnlySequenceKeepsWhateverIsCommon(t *testing.T) {
	p := newPool(1)
	p.extend(0, []int32{1, 2, 3, 4, 5, 6})
	_, common, err := p.acquire(t.Context(), []int32{1, 2, 9, 9, 9, 9, 9}, true)
	require.NoError(t, err)
	require.Equal(t, 2, common)
}

func TestTheLongestUnusedSequenceIsTaken(t *testing.T) {
	p := newPool(3)
	for want := range 3 {
		index, _, err := p.acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
	for _, index := range []int{1, 0, 2} {
		p.release(index)
	}
	for _, want := range []int{1, 0, 2} {
		index, _, err := p.acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
}

func TestWaitersAreServedInTheirOrderAndMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		_, _, err := p.acquire(t.Context(), nil, false)
		require.NoError(t, err)
		served := make(chan int, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			c := t.Context()
			if i == 1 {
				c = ctx
			}
			go func() {
				if _, _, err := p.acquire(c, nil, false); err == nil {
					served <- i
					p.release(0)
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		require.Empty(t, served)
		p.release(0)
		synctest.Wait()
		require.Len(t, served, 2)
		require.Equal(t, 0, <-served)
		require.Equal(t, 2, <-served)

		_, _, err = p.acquire(ctx, nil, false)
		require.ErrorIs(t, err, context.Canceled, "a free sequence is not for who has gone")
	})
}

// cheapest is the obvious version of planChunks: every way to cut n rows.
func cheapest(rows []int, n int) int {
	if n <= 0 {
		return 0
	}
	best := 1 << 30
	for _, w := range rows {
		best = min(best, w+passCost+cheapest(rows, n-w))
	}
	return best
}

func TestChunksCostNoMoreThanAnyOtherCut(t *testing.T) {
	for _, rows := range [][]int{{128, 1}, {32, 8, 1}, {16}, {40, 24, 10}, {1}} {
		chunks := planChunks(Options{Rows: rows})
		for n := 1; n <= min(rows[0], 24); n++ {
			cost := 0
			for left := n; left > 0; left -= chunks[left] {
				require.Positive(t, chunks[left])
				width := 0
				for _, w := range rows { // the smallest that holds them
					if w >= chunks[left] {
						width = w
					}
				}
				cost += width + passCost
			}
			require.Equal(t, cheapest(rows, n), cost, "%d rows on %v", n, rows)
		}
	}
}

func TestATailOfAPromptTakesTheCheaperWidth(t *testing.T) {
	chunks := planChunks(Options{Rows: []int{128, 1}})
	require.Equal(t, 1, chunks[11], "eleven single passes: 132")
	require.Equal(t, 12, chunks[12], "twelve would cost 144, one wide pass 139")
	require.Equal(t, 128, chunks[128])
}
