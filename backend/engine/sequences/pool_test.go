package sequences

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAcquirePrefersTheSequenceThatHoldsThePrompt(t *testing.T) {
	held := [][]int32{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 9, 9, 9, 9, 9, 9, 9}, nil}
	for _, tt := range []struct {
		name   string
		prompt []int32
		reuse  bool
		index  int
		common int
	}{
		{"the conversation continues", []int32{1, 9, 9, 9, 9, 9, 9, 9, 5}, true, 1, 8},
		{"its beginning is repeated", []int32{1, 2, 3, 4}, true, 0, 4},
		{"half of what is held is common", []int32{1, 2, 3, 4, 0, 0, 0, 0, 0, 0}, true, 0, 4},
		{"only the first token is common", []int32{1, 5, 5, 5, 5, 5}, true, 2, 0},
		{"nothing is common", []int32{7, 7}, true, 2, 0},
		{"without reuse", []int32{1, 9, 9, 9, 9, 9, 9, 9, 5}, false, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(len(held))
			for i, tokens := range held {
				p.Extend(i, tokens)
				if tokens != nil {
					p.sequences[i].used = uint64(i + 1)
				}
			}
			index, common, err := p.Acquire(t.Context(), tt.prompt, tt.reuse)
			require.NoError(t, err)
			require.Equal(t, tt.index, index)
			require.Equal(t, tt.common, common)
		})
	}
}

func TestAnOnlySequenceKeepsEachCommonToken(t *testing.T) {
	p := NewPool(1)
	p.Extend(0, []int32{1, 2, 3, 4, 5, 6})
	_, common, err := p.Acquire(t.Context(), []int32{1, 2, 9, 9, 9, 9, 9}, true)
	require.NoError(t, err)
	require.Equal(t, 2, common)
}

func TestAcquireTakesTheSequenceUnusedForLongest(t *testing.T) {
	p := NewPool(3)
	for want := range 3 {
		index, _, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
	for _, index := range []int{1, 0, 2} {
		p.Release(index)
	}
	for _, want := range []int{1, 0, 2} {
		index, _, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
}

func TestWaitingRequestsAreServedInOrderAndMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1)
		_, _, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		served := make(chan int, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			c := t.Context()
			if i == 1 {
				c = ctx
			}
			go func() {
				if _, _, err := p.Acquire(c, nil, false); err == nil {
					served <- i
					p.Release(0)
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		require.Empty(t, served)
		p.Release(0)
		synctest.Wait()
		require.Len(t, served, 2)
		require.Equal(t, 0, <-served)
		require.Equal(t, 2, <-served)

		_, _, err = p.Acquire(ctx, nil, false)
		require.ErrorIs(t, err, context.Canceled, "a cancelled request gets no free sequence")
	})
}
