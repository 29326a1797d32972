package llamaserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sdnpu/sdnpu/adapters/chat/parse"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/responses"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// responseRequest is the body of a request to /v1/responses, OpenAI's newer form of a
// chat. The server keeps no conversations, so each request must contain the whole
// conversation.
type responseRequest struct {
	*chatRequest
	Input           responses.Input      `json:"input"`
	Instructions    string               `json:"instructions"`
	MaxOutputTokens *int                 `json:"max_output_tokens"`
	Tools           responses.Tools      `json:"tools"`
	ToolChoice      responses.ToolChoice `json:"tool_choice"`
	Reasoning       struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
		Format responseFormat `json:"format"`
	} `json:"text"`
	Previous   present `json:"previous_response_id"`
	Background bool    `json:"background"`
}

// engineRequest converts the body to an engine's request, or returns an error for the
// client.
func (b *responseRequest) engineRequest(ctx context.Context, g *grammars, m Model) (engine.Request, error) {
	switch {
	case bool(b.Previous), b.Background:
		return engine.Request{}, refuse(http.StatusBadRequest, "the server keeps no conversations: send the whole conversation as input, without previous_response_id and background")
	case len(b.Input) == 0:
		return engine.Request{}, refuse(http.StatusBadRequest, "the request has no input")
	}
	if err := b.setChat(); err != nil {
		return engine.Request{}, notJSON(err)
	}
	return b.chatRequest.engineRequest(ctx, g, m)
}

// setChat copies the fields of the body to the fields of a chat.
func (b *responseRequest) setChat() (err error) {
	if b.Messages, err = b.Input.Messages(b.Instructions); err != nil {
		return err
	}
	if b.chatRequest.Tools, err = b.Tools.Chat(); err != nil {
		return err
	}
	choice, err := b.ToolChoice.Chat()
	if err != nil {
		return err
	}
	if b.MaxOutputTokens != nil {
		b.MaxTokens = b.MaxOutputTokens
	}
	if b.Reasoning.Effort != "" {
		b.ReasoningEffort = b.Reasoning.Effort
	}
	if b.Text.Format.Type != "" {
		b.ResponseFormat = b.Text.Format
	}
	return json.Unmarshal(choice, &b.chatRequest.ToolChoice)
}

// responses handles /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, m Model) error {
	body := &responseRequest{chatRequest: s.newChatRequest(m)}
	var request engine.Request
	err := s.intake.request(w, r, m.Limits().completionBody(), body, func(ctx context.Context) (_ func() error, err error) {
		request, err = body.engineRequest(ctx, &s.grammars, m)
		request.Shift = s.shift
		body.Input, body.Messages, body.Prompt, body.JSONSchema = nil, nil, prompt{}, nil // the engine's request needs no part of the body any more, so free its memory
		return nil, err
	})
	if err != nil {
		return err
	}
	answer := responses.NewAnswer(responses.Header{
		Model: s.alias(m), Created: time.Now().Unix(), Tools: body.Tools, ToolChoice: body.ToolChoice,
	}, newID)
	return s.answer(w, r, m, request, body.Stream, &responseForm{answer: answer, parser: body.parser, begun: body.begun})
}

// responseForm writes an answer in the form of /v1/responses.
type responseForm struct {
	answer *responses.Answer
	parser *parse.Parser // parser splits the answer; nil if all of it is content
	begun  parse.Delta   // begun is the start of the message that the answer continues
}

// add adds a text of the model to the answer, and returns the events of the text.
func (f *responseForm) add(text string) several {
	events := f.answer.Add(f.begun)
	f.begun = parse.Delta{}
	d := parse.Delta{Content: text}
	if f.parser != nil {
		d = f.parser.Add(text)
	}
	return eventList(append(events, f.answer.Add(d)...))
}

func (f *responseForm) piece(p engine.Piece) any { return f.add(p.Text) }

func (f *responseForm) end(_ []engine.TokenLogprob, r engine.Report) []any {
	list := f.add("")
	if f.parser != nil {
		list = append(list, eventList(f.answer.Add(f.parser.Close()))...)
	}
	u := usageOf(r)
	return append(list, eventList(f.answer.End(finishReason(r) == "length", responses.Usage{Input: u.Prompt, Cached: u.Details.Cached, Output: u.Completion}))...)
}

// eventList returns events as the values that a stream sends.
func eventList(events []responses.Event) (list several) {
	for _, e := range events {
		list = append(list, e)
	}
	return list
}

func (f *responseForm) whole(text string, _ []engine.TokenLogprob, r engine.Report) any {
	f.add(text)
	f.end(nil, r)
	return f.answer.Object()
}

func (f *responseForm) failure(r *refusal) any { return f.answer.Failed(r.sentence) }
