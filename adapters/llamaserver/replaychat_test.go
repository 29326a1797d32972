package llamaserver

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replayTemplate is plainTemplate without the BOS token, whose text the fake tokenizer
// does not know.
var replayTemplate = strings.TrimPrefix(plainTemplate, "{{ bos_token }}")

// recordedChat holds the fields of a recorded conversation that the checks read.
type recordedChat struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	NPredict       int             `json:"n_predict"`
	ResponseFormat json.RawMessage `json:"response_format"`
	Stop           []string
	Temperature    float32
	Seed           int64
	Tools          []json.RawMessage
	Logprobs       bool
	TopLogprobs    int `json:"top_logprobs"`
}

// images reports whether a message has parts that are no text.
func (c recordedChat) images() bool {
	for _, m := range c.Messages {
		if strings.Contains(string(m.Content), "image_url") {
			return true
		}
	}
	return false
}

// rendered returns the text that replayTemplate renders from the messages.
func (c recordedChat) rendered(t *testing.T) string {
	var b strings.Builder
	for _, m := range c.Messages {
		var text string
		require.NoError(t, json.Unmarshal(m.Content, &text))
		b.WriteString("<" + m.Role + ">" + text)
	}
	return b.String() + "<assistant>"
}

func checkTemplate(t *testing.T, name string, body, raw []byte) {
	var asked recordedChat
	require.NoError(t, json.Unmarshal(body, &asked), name)
	var got struct{ Prompt *string }
	require.NoError(t, json.Unmarshal(raw, &got), "%s: %s", name, raw)
	require.NotNil(t, got.Prompt, name)
	require.Equal(t, asked.rendered(t), *got.Prompt, name)
}

func checkChat(t *testing.T, name string, body []byte, response *http.Response, raw []byte, m *fakeModel) {
	var asked recordedChat
	require.NoError(t, json.Unmarshal(body, &asked), name)
	if asked.images() {
		require.Equal(t, http.StatusBadRequest, response.StatusCode, name)
		require.NotContains(t, string(raw), "{", "%s: people read this", name)
		return
	}
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", name, raw)
	text, tokens := "", 0
	events := readChat(t, raw)
	for i, e := range events {
		require.Len(t, e.Choices, 1, name)
		choice := e.Choices[0]
		require.Equal(t, i == len(events)-1, choice.FinishReason != nil, "%s: only the last event has a reason", name)
		require.Equal(t, choice.FinishReason != nil, e.Timings != nil, "%s: the host reads both from one event", name)
		if choice.Delta.Content != nil {
			text += *choice.Delta.Content
		}
		if choice.Logprobs != nil {
			tokens += len(choice.Logprobs.Content)
		}
	}
	final := events[len(events)-1]
	require.Equal(t, "stop", *final.Choices[0].FinishReason, name)
	want := ""
	for _, p := range m.pieces {
		want += p.Text
	}
	if len(asked.Tools) > 0 { // the parser of calls drops white space around the content
		want, text = strings.TrimSpace(want), strings.TrimSpace(text)
	}
	require.Equal(t, want, text, name)
	saw := m.lastSeen(t)
	require.Equal(t, len(m.pieces), final.Timings.PredictedN, name)
	require.Equal(t, len(saw.Prompt), final.Timings.PromptN+final.Timings.CacheN, name)
	require.Equal(t, asked.rendered(t), m.Decode(saw.Prompt), name)
	require.EqualValues(t, fakeBOS, saw.Prompt[0], "%s: one BOS", name)
	require.Equal(t, asked.ResponseFormat != nil, saw.Grammar != nil, name)
	require.Equal(t, asked.NPredict, saw.MaxTokens, name)
	require.Equal(t, asked.Stop, saw.Stop, name)
	require.Equal(t, asked.Temperature, saw.Sampling.Temperature, name)
	if asked.Logprobs {
		require.Equal(t, asked.TopLogprobs, saw.Logprobs, name)
		require.Equal(t, len(m.pieces), tokens, "%s: every token has its probabilities", name)
	} else {
		require.Zero(t, tokens, name)
	}
}

// checkEmbedding checks the embedding of a recorded text. For a text, fakeEmbedder returns
// the numbers (token, 3, 4), where token is the last token of the text.
func checkEmbedding(t *testing.T, name string, body []byte, answer *httptest.ResponseRecorder) {
	var asked struct {
		Input     string
		Normalize int `json:"embd_normalize"`
	}
	asked.Normalize = 2
	require.NoError(t, json.Unmarshal(body, &asked), name)
	require.Equal(t, http.StatusOK, answer.Code, "%s: %s", name, answer.Body)
	var got struct {
		Data  []struct{ Embedding []float64 }
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got), name)
	require.Len(t, got.Data, 1, name)
	want := []float64{float64(asked.Input[len(asked.Input)-1]) + fakeFirst, 3, 4}
	if asked.Normalize == 2 {
		length := math.Hypot(want[0], 5)
		want = []float64{want[0] / length, want[1] / length, want[2] / length}
	}
	require.InDeltaSlice(t, want, got.Data[0].Embedding, 1e-5, name)
	require.Equal(t, 1+len(asked.Input), got.Usage.PromptTokens, "%s: with BOS", name)
}
