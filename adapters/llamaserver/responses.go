package llamaserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// responseRequest is the body of a request to /v1/responses, OpenAI's newer form of a
// chat. The server keeps no conversations, so each request must contain the whole
// conversation.
type responseRequest struct {
	*chatRequest
	Input           responseInput `json:"input"`
	Instructions    string        `json:"instructions"`
	MaxOutputTokens *int          `json:"max_output_tokens"`
	Previous        present       `json:"previous_response_id"`
	Background      bool          `json:"background"`
	Tools           present       `json:"tools"`
}

// responseMessage is a message of a conversation in the form of a chat.
type responseMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// responseInput is a text, or a list of messages.
type responseInput []responseMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (in *responseInput) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		*in = responseInput{{Role: "user"}}
		return json.Unmarshal(raw, &(*in)[0].Content)
	}
	var list []struct {
		Type, Role string
		Content    responseContent
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return notJSON(err)
	}
	*in = nil
	for _, item := range list {
		if item.Type != "" && item.Type != "message" || item.Role == "" {
			return refuse(http.StatusBadRequest, "an input has the type %.40q and the role %.40q: want messages with a role", item.Type, item.Role)
		}
		if item.Role == "developer" {
			item.Role = "system" // chat templates know only system, the older name of the role developer
		}
		*in = append(*in, responseMessage{item.Role, string(item.Content)})
	}
	return nil
}

// responseContent is the text of a message: a text, or a list of parts.
type responseContent string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *responseContent) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(c))
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return notJSON(err)
	}
	var text strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text":
			text.WriteString(p.Text)
		default:
			return errMedia
		}
	}
	*c = responseContent(text.String())
	return nil
}

// engineRequest converts the body to an engine's request, or returns an error for the
// client.
func (b *responseRequest) engineRequest(ctx context.Context, g *grammars, m Model) (engine.Request, error) {
	switch {
	case bool(b.Previous), b.Background:
		return engine.Request{}, refuse(http.StatusBadRequest, "the server keeps no conversations: send the whole conversation as input, without previous_response_id and background")
	case bool(b.Tools):
		return engine.Request{}, refuse(http.StatusBadRequest, "/v1/responses takes no tools: use /v1/chat/completions")
	case len(b.Input) == 0:
		return engine.Request{}, refuse(http.StatusBadRequest, "the request has no input")
	}
	messages := b.Input
	if b.Instructions != "" {
		messages = append(responseInput{{"system", b.Instructions}}, messages...)
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode([]responseMessage(messages)); err != nil {
		return engine.Request{}, err
	}
	b.Messages = text.Bytes()
	if b.MaxOutputTokens != nil {
		b.MaxTokens = b.MaxOutputTokens
	}
	return b.chatRequest.engineRequest(ctx, g, m)
}

// responses handles /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, m Model) error {
	body := &responseRequest{chatRequest: s.newChatRequest(m)}
	var request engine.Request
	err := s.intake.request(w, r, m.Limits().completionBody(), body, func(ctx context.Context) (_ func() error, err error) {
		request, err = body.engineRequest(ctx, &s.grammars, m)
		request.Shift = s.shift
		return nil, err
	})
	if err != nil {
		return err
	}
	return s.answer(w, r, m, request, body.Stream, &responseForm{
		id: newID("resp_"), message: newID("msg_"), created: time.Now().Unix(), model: s.alias(m),
	})
}

// responseForm writes an answer in the form of /v1/responses.
type responseForm struct {
	id, message, model string
	created            int64
	events             int // events counts the events that were sent
	text               strings.Builder
}

// object returns the response as a JSON object with the given state. Until the answer is
// complete, the caller passes a nil report.
func (f *responseForm) object(state, text string, r *engine.Report) map[string]any {
	o := map[string]any{
		"id": f.id, "object": "response", "created_at": f.created, "model": f.model, "status": state, "error": nil,
		"incomplete_details": nil, "output": []any{}, "usage": nil, "tools": []any{}, "tool_choice": "none",
		"parallel_tool_calls": false, "store": false,
	}
	if r == nil {
		return o
	}
	o["output"] = []any{f.item(state, text)}
	if state == "incomplete" {
		o["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	u := usageOf(*r)
	o["usage"] = map[string]any{
		"input_tokens": u.Prompt, "output_tokens": u.Completion, "total_tokens": u.Total,
		"input_tokens_details": u.Details, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	return o
}

// item returns the answer's message as an output item of /v1/responses.
func (f *responseForm) item(state, text string) map[string]any {
	content := []any{}
	if state != "in_progress" {
		content = append(content, outputText(text))
	}
	return map[string]any{"id": f.message, "type": "message", "role": "assistant", "status": state, "content": content}
}

// outputText returns the part of a message that holds its text.
func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

// stateOf returns the state of a response that has ended.
func stateOf(r engine.Report) string {
	if r.Stop == engine.StopLimit {
		return "incomplete"
	}
	return "completed"
}

// event returns a streamed event of /v1/responses with the next sequence number. An event about a
// content part or its text gets the ID of the message, and the indexes of the message and of the part.
func (f *responseForm) event(name string, fields map[string]any) namedEvent {
	fields["type"], fields["sequence_number"] = name, f.events
	f.events++
	if strings.HasPrefix(name, "response.content_part") || strings.HasPrefix(name, "response.output_text") {
		fields["item_id"], fields["output_index"], fields["content_index"] = f.message, 0, 0
	}
	return namedEvent{name, fields}
}

// begin returns the events before the first text.
func (f *responseForm) begin() []any {
	if f.events > 0 {
		return nil
	}
	return []any{
		f.event("response.created", map[string]any{"response": f.object("in_progress", "", nil)}),
		f.event("response.output_item.added", map[string]any{"output_index": 0, "item": f.item("in_progress", "")}),
		f.event("response.content_part.added", map[string]any{"part": outputText("")}),
	}
}

func (f *responseForm) piece(p engine.Piece) any {
	f.text.WriteString(p.Text)
	return several(append(f.begin(), f.event("response.output_text.delta", map[string]any{"delta": p.Text, "logprobs": []any{}})))
}

func (f *responseForm) end(_ []engine.TokenLogprob, r engine.Report) []any {
	text, state := f.text.String(), stateOf(r)
	return append(f.begin(),
		f.event("response.output_text.done", map[string]any{"text": text, "logprobs": []any{}}),
		f.event("response.content_part.done", map[string]any{"part": outputText(text)}),
		f.event("response.output_item.done", map[string]any{"output_index": 0, "item": f.item(state, text)}),
		f.event("response."+state, map[string]any{"response": f.object(state, text, &r)}),
	)
}

func (f *responseForm) whole(text string, _ []engine.TokenLogprob, r engine.Report) any {
	return f.object(stateOf(r), text, &r)
}

func (f *responseForm) failure(r *refusal) any {
	return f.event("error", map[string]any{"code": "server_error", "message": r.sentence, "param": nil})
}
