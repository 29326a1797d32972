package llamaserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// completionRequest is the body of /completion. Unknown fields are ignored,
// because each version of the host adds fields.
type completionRequest struct {
	Prompt      json.RawMessage `json:"prompt"`
	Stream      bool            `json:"stream"`
	CachePrompt bool            `json:"cache_prompt"`
	NPredict    int             `json:"n_predict"`
	NKeep       int             `json:"n_keep"`
	IgnoreEOS   bool            `json:"ignore_eos"`
	NProbs      int             `json:"n_probs"`
	Stop        texts           `json:"stop"`
	Preserved   []string        `json:"preserved_tokens"`

	Temperature      float32 `json:"temperature"`
	TopK             int     `json:"top_k"`
	TopP             float32 `json:"top_p"`
	MinP             float32 `json:"min_p"`
	TypicalP         float32 `json:"typical_p"`
	RepeatPenalty    float32 `json:"repeat_penalty"`
	RepeatLastN      int     `json:"repeat_last_n"`
	FrequencyPenalty float32 `json:"frequency_penalty"`
	PresencePenalty  float32 `json:"presence_penalty"`
	Seed             int64   `json:"seed"`

	Grammar    string          `json:"grammar"`
	JSONSchema json.RawMessage `json:"json_schema"`
	Images     json.RawMessage `json:"images"`
	ImageData  json.RawMessage `json:"image_data"`
}

// defaults returns llama-server's values for missing fields.
func defaults() completionRequest {
	return completionRequest{
		CachePrompt: true, NPredict: -1,
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TypicalP: 1,
		RepeatPenalty: 1, RepeatLastN: 64, Seed: -1,
	}
}

// texts is a list of strings or a single one.
type texts []string

// UnmarshalJSON accepts both forms.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*t = texts{""}
		return json.Unmarshal(raw, &(*t)[0])
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// engineRequest converts the body to an engine's request, or returns a refusal.
func (c *completionRequest) engineRequest(m Model) (engine.Request, error) {
	if c.Grammar != "" || given(c.JSONSchema) {
		return engine.Request{}, refuse(http.StatusBadRequest, "a format (JSON, schema or grammar) is not supported yet: "+
			"sdnpu cannot hold the answer to it. Ask again without format.")
	}
	if given(c.Images) || given(c.ImageData) {
		return engine.Request{}, errMedia
	}
	prompt, err := c.promptTokens(m)
	if err != nil {
		return engine.Request{}, err
	}
	if len(prompt) == 0 {
		return engine.Request{}, refuse(http.StatusBadRequest, "the prompt has no tokens")
	}
	if limit := m.Limits().Context; len(prompt) >= limit {
		return engine.Request{}, tooLong(fmt.Sprint(len(prompt)), len(prompt), limit)
	}
	preserve, err := c.preserved(m)
	if err != nil {
		return engine.Request{}, err
	}
	var stop []string
	for _, s := range c.Stop {
		if s != "" { // an empty text would end each answer at once
			stop = append(stop, s)
		}
	}
	keep, err := c.keep(m, prompt)
	if err != nil {
		return engine.Request{}, err
	}
	return engine.Request{
		Prompt:      prompt,
		MaxTokens:   max(c.NPredict, -1),
		Keep:        keep,
		CachePrompt: c.CachePrompt,
		Sampling:    c.sampling(),
		Stop:        stop,
		Preserve:    preserve,
		Logprobs:    min(max(c.NProbs, 0), m.Limits().Vocab),
		IgnoreEOS:   c.IgnoreEOS,
	}, nil
}

var errMedia = refuse(http.StatusBadRequest,
	"this model takes text only: sdnpu cannot read images or audio. Ask again without them.")

// promptTokens reads the three forms of a prompt. A list of numbers is a part of an
// earlier answer of /tokenize and gets no BOS.
func (c *completionRequest) promptTokens(m Model) ([]int32, error) {
	raw := bytes.TrimSpace(c.Prompt)
	if len(raw) == 0 {
		return nil, refuse(http.StatusBadRequest, "the request has no prompt")
	}
	var text string
	switch raw[0] {
	case '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, notJSON(err)
		}
	case '[':
		var ids []int32
		if err := json.Unmarshal(raw, &ids); err != nil {
			return nil, refuse(http.StatusBadRequest, "a prompt list must hold token numbers only")
		}
		return ids, checkTokens(ids, m)
	case '{':
		var object struct {
			Text  string          `json:"prompt_string"`
			Media json.RawMessage `json:"multimodal_data"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, notJSON(err)
		}
		if given(object.Media) {
			return nil, errMedia
		}
		text = object.Text
	default:
		return nil, refuse(http.StatusBadRequest, "a prompt must be a text, a list of token numbers or an object")
	}
	// Tokenizing takes about a second per megabyte, so reject a prompt that cannot
	// fit with any tokenization.
	if l := m.Limits(); l.LongestPiece > 0 && len(text)/l.LongestPiece >= l.Context {
		least := len(text) / l.LongestPiece
		return nil, tooLong(fmt.Sprint("at least ", least), least, l.Context)
	}
	return encode(m, text, true, true)
}

// keep returns the number of tokens that a context shift must not drop. The tokens
// that start each text (BOS) are added to the requested number.
func (c *completionRequest) keep(m Model, prompt []int32) (int, error) {
	if c.NKeep < 0 || c.NKeep >= len(prompt) {
		return len(prompt), nil
	}
	start, err := encode(m, "", true, true)
	if err != nil {
		return 0, err
	}
	n := 0
	for n < len(start) && n < len(prompt) && prompt[n] == start[n] {
		n++
	}
	return min(c.NKeep+n, len(prompt)), nil
}

// preserved returns the control tokens to show. A text of several tokens is
// always shown.
func (c *completionRequest) preserved(m Model) ([]int32, error) {
	var ids []int32
	for _, text := range c.Preserved {
		tokens, err := encode(m, text, false, true)
		if err != nil {
			return nil, err
		}
		if len(tokens) == 1 {
			ids = append(ids, tokens[0])
		}
	}
	return ids, nil
}

// sampling converts llama-server's sampling options to the sampler's.
func (c *completionRequest) sampling() sampler.Options {
	o := sampler.Options{
		Temperature:      c.Temperature,
		TopK:             c.TopK,
		TopP:             onlyBest(c.TopP),
		MinP:             max(c.MinP, 0),
		TypicalP:         onlyBest(c.TypicalP),
		RepeatPenalty:    c.RepeatPenalty,
		RepeatLastN:      c.RepeatLastN,
		FrequencyPenalty: c.FrequencyPenalty,
		PresencePenalty:  c.PresencePenalty,
		Seed:             uint64(c.Seed),
	}
	if c.Seed == -1 || c.Seed == math.MaxUint32 { // -1 as llama-server stores it
		o.Seed = rand.Uint64()
	}
	return o
}

// onlyBest converts 0, which means one token in llama-server and all tokens in the
// sampler.
func onlyBest(p float32) float32 { return max(p, math.SmallestNonzeroFloat32) }

// given reports whether an optional field has a value.
func given(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "[]":
		return false
	}
	return true
}

// encode tokenizes a text, or returns the answer that rejects the request.
func encode(m Model, text string, addSpecial, parseSpecial bool) ([]int32, error) {
	ids, err := m.Encode(text, addSpecial, parseSpecial)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the text cannot be tokenized: %v", err)
	}
	return ids, nil
}

// checkTokens rejects numbers outside the vocabulary.
func checkTokens(ids []int32, m Model) error {
	vocab := m.Limits().Vocab
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return refuse(http.StatusBadRequest, "token %d does not exist: the model has %d tokens", id, vocab)
		}
	}
	return nil
}

// notJSON returns the refusal of an invalid body.
func notJSON(err error) *refusal {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return refuse(http.StatusBadRequest, "the request is not understood: %s cannot be a %s", wrong.Field, wrong.Value)
	}
	return refuse(http.StatusBadRequest, "the request is not understood: %v", err)
}
