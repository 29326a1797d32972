package sequences

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// times returns each token reuseStep times in a row, so that reuse may end after each token
// of the original text.
func times(tokens ...int32) (text []int32) {
	for _, token := range tokens {
		text = append(text, slices.Repeat([]int32{token}, reuseStep)...)
	}
	return text
}

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
				p.Extend(i, times(tokens...))
				if tokens != nil {
					p.sequences[i].used = uint64(i + 1)
				}
			}
			l, err := p.Acquire(t.Context(), times(tt.prompt...), tt.reuse)
			require.NoError(t, err)
			require.Equal(t, tt.index, l.Sequence)
			require.Equal(t, reuseStep*tt.common, l.Held)
		})
	}
}

func TestAnOnlySequenceKeepsACommonBeginning(t *testing.T) {
	p := NewPool(1)
	p.Extend(0, times(1, 2, 3, 4, 5, 6))
	l, err := p.Acquire(t.Context(), append(times(1, 2), 2, 9, 9, 9), true)
	require.NoError(t, err)
	require.Equal(t, 2*reuseStep, l.Held)
	require.Equal(t, -1, l.Source)
}

// TestReuseDoesNotTellWhetherOneTokenWasGuessed plays a client that guesses the prompt
// of an earlier request: a known beginning of the prompt and one more token. A right
// and a wrong guess must give equal numbers of reused tokens, unless the guess
// completes reuseStep tokens, the prompt or the text.
func TestReuseDoesNotTellWhetherOneTokenWasGuessed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	told := 0
	for range 2000 {
		prompt, answer := make([]int32, 1+rng.IntN(150)), make([]int32, rng.IntN(50))
		for i := range prompt {
			prompt[i] = rng.Int32N(100)
		}
		held := append(slices.Clone(prompt), answer...)
		ask := func(guess []int32) int {
			p := NewPool(1)
			_, err := p.Acquire(t.Context(), prompt, true)
			require.NoError(t, err)
			p.Extend(0, held)
			p.Release(0)
			l, err := p.Acquire(t.Context(), guess, true)
			require.NoError(t, err)
			return l.Held
		}
		known := rng.IntN(len(prompt))
		right, wrong := slices.Clone(prompt[:known+1]), slices.Clone(prompt[:known+1])
		wrong[known] = 100
		if ask(right) == ask(wrong) {
			continue
		}
		n := known + 1
		require.True(t, n%reuseStep == 0 || n == len(prompt) || n == len(held), "%d known of %d", known, len(prompt))
		told++
	}
	require.Positive(t, told, "the end of a prompt may be recognized")
}

func TestContinuedAndRepeatedTextsAreReusedWhole(t *testing.T) {
	for n := 1; n < 200; n += 7 {
		p, prompt, answer := NewPool(1), slices.Repeat([]int32{4}, n), []int32{5, 6, 7}
		for turn, tt := range []struct {
			prompt []int32
			common int
		}{{prompt, 0}, {prompt, n}, {slices.Concat(prompt, answer, []int32{8}), n + 3}} {
			l, err := p.Acquire(t.Context(), tt.prompt, true)
			require.NoError(t, err)
			require.Equal(t, tt.common, l.Held, "turn %d of %d tokens", turn, n)
			p.Cut(0, l.Held)
			p.Extend(0, tt.prompt[l.Held:])
			p.Extend(0, answer)
			p.Release(0)
		}
	}
}

func TestAcquireTakesTheSequenceUnusedForLongest(t *testing.T) {
	p := NewPool(3)
	for want := range 3 {
		l, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, l.Sequence)
	}
	for _, index := range []int{1, 0, 2} {
		p.Release(index)
	}
	for _, want := range []int{1, 0, 2} {
		l, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		require.Equal(t, want, l.Sequence)
	}
}

func TestWaitingRequestsAreServedInOrderAndMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1)
		_, err := p.Acquire(t.Context(), nil, false)
		require.NoError(t, err)
		served := make(chan int, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 3 {
			c := t.Context()
			if i == 1 {
				c = ctx
			}
			go func() {
				if _, err := p.Acquire(c, nil, false); err == nil {
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

		_, err = p.Acquire(ctx, nil, false)
		require.ErrorIs(t, err, context.Canceled, "a cancelled request gets no free sequence")
	})
}

// TestTakeTakesOnlyAFreeSequence takes and releases random sequences, and compares the
// results with a list of the busy ones.
func TestTakeTakesOnlyAFreeSequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	p, busy := NewPool(4), make([]bool, 4)
	for range 2000 {
		i := rng.IntN(4)
		switch {
		case busy[i] && rng.IntN(2) == 0:
			p.Release(i)
			busy[i] = false
		case rng.IntN(3) == 0 && slices.Contains(busy, false):
			l, err := p.Acquire(t.Context(), []int32{1}, true)
			require.NoError(t, err)
			require.False(t, busy[l.Sequence])
			busy[l.Sequence] = true
		default:
			require.Equal(t, !busy[i], p.Take(i))
			busy[i] = true
		}
		n := 0
		for _, b := range busy {
			if b {
				n++
			}
		}
		require.Equal(t, n, p.Busy())
	}
	tokens, prompt := []int32{3, 4}, 7
	p.Set(2, tokens, prompt)
	got, length := p.Held(2)
	require.Equal(t, tokens, got)
	require.Equal(t, prompt, length)
}
