package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswersAreExpectedToResembleEarlierOnes(t *testing.T) {
	e := &Engine{}
	expect := func(limit int) [2]float64 {
		output, accept := e.expectAnswer(&Request{MaxTokens: limit})
		return [2]float64{output, accept}
	}
	require.Equal(t, [2]float64{0, 0}, expect(-1), "nothing is known")
	require.Equal(t, [2]float64{7, 0}, expect(7))
	require.Equal(t, [2]float64{longestGuess, 0}, expect(32000), "answers seldom reach a limit of thousands")
	e.workload.Answered(101, 3, time.Second)
	require.Equal(t, [2]float64{101, 3}, expect(-1))
	require.Equal(t, [2]float64{50, 3}, expect(50))
	require.Equal(t, [2]float64{1, 3}, expect(0))
}
