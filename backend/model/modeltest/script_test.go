package modeltest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/model/modeltest"
)

func TestAScriptIsTheLikeliestAnswer(t *testing.T) {
	m := modeltest.Script([]string{"Hello", " ", "you"})
	answer := []int32{1, 0, 3} // 1 is BOS, 0 the unknown token, and 3 ScriptStart
	for range 4 {
		rows := m.Forward(answer, m.Context)
		last, best := rows[len(rows)-1], 0
		for i, v := range last {
			if v > last[best] {
				best = i
			}
		}
		answer = append(answer, int32(best))
	}
	require.Equal(t, []int32{4, 5, 6, 2}, answer[3:], "the three pieces and the end")
}
