package shadow

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/model"
)

// words returns an encoder that gives each word a token: the word's length.
func words(text string) (tokens []int32, err error) {
	for word := range strings.FieldsSeq(text) {
		tokens = append(tokens, int32(len(word)))
	}
	return tokens, nil
}

func TestLastWordsPredictsTheLastWordOnly(t *testing.T) {
	corpus := "{\"text\": \"one three of\\n\"}\n{\"text\": \"alone\"}\n{\"text\": \"a bb ccc\"}\n{\"text\": \"left out\"}\n"
	items, err := LastWords([]byte(corpus), words, 2)
	require.NoError(t, err)
	require.Equal(t, []Item{{Index: 0, Tokens: []int32{3, 5, 2}, From: 2}, {Index: 1, Tokens: []int32{1, 2, 3}, From: 2}}, items)

	items, err = LastWords([]byte(`{"text": "`+strings.Repeat("a ", passage)+`end"}`), words, 2)
	require.NoError(t, err)
	require.Empty(t, items, "the passage does not fit into the chain's context")
	_, err = LastWords([]byte("{\"text\": \"a b\"}\nnot JSON\n"), words, 2)
	require.ErrorContains(t, err, "invalid character")
	broken := errors.New("broken")
	_, err = LastWords([]byte(corpus), func(string) ([]int32, error) { return nil, broken }, 2)
	require.ErrorIs(t, err, broken)
}

func TestPassagesPredictAllTokensButTheFirst(t *testing.T) {
	items := Passages(make([]int32, 2*passage+1), 5)
	require.Len(t, items, 2, "a passage of one token predicts nothing")
	require.Equal(t, []int{0, 1}, []int{items[0].Index, items[1].Index})
	require.Len(t, items[1].Tokens[items[1].From:], passage-1)
	require.Len(t, Passages(make([]int32, 2*passage), 1), 1)
}

// TestSummarizeComparesEqualItems computes a summary by hand: of four common items the technique
// loses one, gains one and keeps two. The fifth item was computed by the reference only.
func TestSummarizeComparesEqualItems(t *testing.T) {
	reference := []Score{
		{Item: 0, Loss: 1, Top: []int32{1}, Right: true},
		{Item: 1, Loss: 2, Top: []int32{2, 3}},
		{Item: 2, Loss: 3, Top: []int32{4}, Right: true},
		{Item: 3, Loss: 4, Top: []int32{5}, Right: true},
		{Item: 4, Loss: 50, Top: []int32{6}},
	}
	tested := []Score{
		{Item: 3, Loss: 4.5, Top: []int32{9}},
		{Item: 2, Loss: 3, Top: []int32{4}, Right: true},
		{Item: 1, Loss: 2.5, Top: []int32{2, 8}, Right: true},
		{Item: 0, Loss: 1, Top: []int32{1}, Right: true},
		{Item: 7, Loss: 1, Top: []int32{1}, Right: true},
	}
	a := Summarize(reference, tested)
	require.Equal(t, 4, a.Items)
	require.Equal(t, 5, a.Positions)
	require.InDelta(t, 0.75, a.Accuracy, 1e-12)
	require.Zero(t, a.Points)
	require.InDelta(t, 100*math.Sqrt(0.5/4), a.Uncertainty, 1e-9)
	require.InDelta(t, math.Exp(11.0/5), a.Perplexity, 1e-9)
	require.InDelta(t, math.Exp(1.0/5), a.Ratio, 1e-12)
	require.InDelta(t, 3.0/5, a.Same, 1e-12)
	require.Zero(t, Summarize(nil, tested))

	lost := Summarize(reference[:1], []Score{{Item: 0, Loss: 2, Top: []int32{2}}})
	require.Equal(t, -100.0, lost.Points)
}

func TestFindTechniquesBeginsWithTheReference(t *testing.T) {
	all, err := FindTechniques("")
	require.NoError(t, err)
	require.Equal(t, Techniques, all)
	some, err := FindTechniques("w8a16, float32,plain W8A8")
	require.NoError(t, err)
	require.Equal(t, []string{"float32", "w8a16", "plain W8A8"}, []string{some[0].Name, some[1].Name, some[2].Name})
	require.Len(t, some, 3)
	require.Equal(t, "plain W8A8", Techniques[1].Name, "the list of techniques must not change")
	_, err = FindTechniques("w8a17")
	require.ErrorContains(t, err, `unknown technique "w8a17": want float32, plain W8A8`)
}

// TestPredictScoresTheTokensOfTheText compares scores with the model's own loss on a text: the
// losses of the last tokens are a part of the losses of all tokens, and Top lists tokens of the
// vocabulary.
func TestPredictScoresTheTokensOfTheText(t *testing.T) {
	_, m := open(t, "../../../integration_test/models/stories260K-f16.gguf")
	exact, err := model.FindRecipe("f32")
	require.NoError(t, err)
	d := cpu.New(cpu.Options{})
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	text := []int32{1, 403, 407, 261, 378, 31, 400}
	scores, err := Predict(t.Context(), d, m, exact, []Item{{Index: 3, Tokens: text, From: 1}, {Index: 4, Tokens: text, From: 5}})
	require.NoError(t, err)
	require.Len(t, scores, 2)
	all, last := scores[0], scores[1]
	require.Equal(t, []int{3, 4}, []int{all.Item, last.Item})
	require.Len(t, all.Top, 6)
	require.Equal(t, all.Top[4:], last.Top)
	require.Greater(t, all.Loss, last.Loss)
	require.Positive(t, last.Loss)
	right := true
	for i, token := range last.Top {
		right = right && token == text[5+i]
	}
	require.Equal(t, right, last.Right)

	chosen := append(append([]int32(nil), text[:5]...), all.Top[4])
	again, err := Predict(t.Context(), d, m, exact, []Item{{Tokens: chosen, From: 5}})
	require.NoError(t, err)
	require.True(t, again[0].Right, "the model must predict its own choice")
}

// TestPlainGivesAllProjectionsEightBits compares the forms of plain W8A8 with the ranges of the
// calibration.
func TestPlainGivesAllProjectionsEightBits(t *testing.T) {
	_, m := open(t, "../../../integration_test/models/stories260K-f16.gguf")
	ranges, err := calibrate(t.Context(), m, []int32{1, 403, 407, 261, 378, 31, 400, 17})
	require.NoError(t, err)
	plain, err := Plain(m, ranges)
	require.NoError(t, err)
	require.Len(t, plain.Shadows, 7*m.Config().Layers)
	require.Equal(t, 1.0, EightBits(plain))
	require.Less(t, EightBits(ranges), 1.0, "queries and keys need 16 bits")
	q := plain.Shadows["layer0_q"]
	require.Equal(t, ranges.Tensors["layer0_q"], q.Main)
	require.Equal(t, plain.Shadows["layer0_v"].Clip, q.Clip)
	require.Empty(t, q.Hot)
	delete(ranges.Tensors, "layer0_q")
	_, err = Plain(m, ranges)
	require.ErrorContains(t, err, "the ranges of the projection layer0_q are missing")
}
