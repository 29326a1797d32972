package messages

import (
	"encoding/json"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/chat/parse"
)

// Event is one event of a streamed answer.
type Event struct {
	Name string
	Data map[string]any
}

// Usage counts the tokens of an answer. Input counts the prompt tokens that were computed.
type Usage struct{ Input, Cached, Output int }

func (u Usage) object() map[string]any {
	return map[string]any{
		"input_tokens": u.Input, "output_tokens": u.Output, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0,
	}
}

// End says why an answer has ended.
type End struct {
	// Limited is set if the limit of tokens has ended the answer.
	Limited bool
	// StopSequence is the stop sequence of the request that has ended the answer, or empty.
	StopSequence string
}

// Answer collects an answer as content blocks. Its methods are not safe for use by several
// goroutines at the same time.
type Answer struct {
	model  string
	id     string
	newID  func(prefix string) string
	blocks []*content
	open   bool // open is set while the last block may still grow
	began  bool
	reason string
	stop   *string
	usage  Usage
}

// content is one block of an answer.
type content struct {
	kind     string // kind is text, thinking or tool_use
	id, name string
	text     strings.Builder
}

// NewAnswer returns an empty answer to a prompt with the given number of tokens. newID returns a
// new random name with a prefix.
func NewAnswer(model string, prompt int, newID func(prefix string) string) *Answer {
	return &Answer{model: model, id: newID("msg_"), newID: newID, usage: Usage{Input: prompt}}
}

// Add adds the next part of the answer, and returns its events.
func (a *Answer) Add(d parse.Delta) []Event {
	events := a.begin()
	if d.Reasoning != "" {
		events = append(events, a.grow("thinking", "thinking_delta", "thinking", d.Reasoning)...)
	}
	if d.Content != "" {
		events = append(events, a.grow("text", "text_delta", "text", d.Content)...)
	}
	for _, part := range d.Calls {
		if part.Name != "" {
			events = append(events, a.start(&content{kind: "tool_use", id: a.newID("toolu_"), name: part.Name})...)
		}
		if part.Arguments != "" {
			events = append(events, a.grow("tool_use", "input_json_delta", "partial_json", part.Arguments)...)
		}
	}
	return events
}

// End ends the answer, and returns its last events.
func (a *Answer) End(e End, u Usage) []Event {
	events := a.begin()
	if len(a.blocks) == 0 {
		events = append(events, a.start(&content{kind: "text"})...)
	}
	events = append(events, a.close()...)
	a.usage = u
	switch {
	case e.Limited:
		a.reason = "max_tokens"
	case a.called():
		a.reason = "tool_use"
	case e.StopSequence != "":
		a.reason, a.stop = "stop_sequence", &e.StopSequence
	default:
		a.reason = "end_turn"
	}
	return append(events,
		Event{"message_delta", map[string]any{
			"type": "message_delta", "delta": map[string]any{"stop_reason": a.reason, "stop_sequence": a.stop}, "usage": u.object(),
		}},
		Event{"message_stop", map[string]any{"type": "message_stop"}})
}

// called reports whether the answer calls a tool.
func (a *Answer) called() bool {
	for _, b := range a.blocks {
		if b.kind == "tool_use" {
			return true
		}
	}
	return false
}

// Object returns the answer as a JSON object. Until the answer has ended, the object has no
// content.
func (a *Answer) Object() map[string]any {
	list := []any{}
	o := map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model, "usage": a.usage.object(), "stop_reason": nil, "stop_sequence": a.stop,
	}
	if a.reason != "" {
		for _, b := range a.blocks {
			list = append(list, b.object())
		}
		o["stop_reason"] = a.reason
	}
	o["content"] = list
	return o
}

// begin returns the event before the first block, once.
func (a *Answer) begin() []Event {
	if a.began {
		return nil
	}
	a.began = true
	return []Event{{"message_start", map[string]any{"type": "message_start", "message": a.Object()}}}
}

// start closes the open block and opens the next one.
func (a *Answer) start(b *content) []Event {
	events := a.close()
	a.blocks, a.open = append(a.blocks, b), true
	return append(events, a.about("content_block_start", "content_block", b.object()))
}

// grow adds text to the open block. If the open block is of another kind, grow opens a block.
func (a *Answer) grow(kind, delta, field, text string) (events []Event) {
	if !a.open || a.blocks[len(a.blocks)-1].kind != kind {
		events = a.start(&content{kind: kind})
	}
	a.blocks[len(a.blocks)-1].text.WriteString(text)
	return append(events, a.about("content_block_delta", "delta", map[string]any{"type": delta, field: text}))
}

// close closes the open block. Clients expect a signature at the end of thoughts; it is empty,
// because the server signs nothing.
func (a *Answer) close() (events []Event) {
	if !a.open {
		return nil
	}
	a.open = false
	if a.blocks[len(a.blocks)-1].kind == "thinking" {
		events = append(events, a.about("content_block_delta", "delta", map[string]any{"type": "signature_delta", "signature": ""}))
	}
	return append(events, a.about("content_block_stop", "", nil))
}

// about returns an event about the last block, with one further field if its name is not empty.
func (a *Answer) about(name, field string, value any) Event {
	data := map[string]any{"type": name, "index": len(a.blocks) - 1}
	if field != "" {
		data[field] = value
	}
	return Event{name, data}
}

// object returns the block as a JSON object. An input that is no JSON object, because the answer
// was cut or the model wrote something else, becomes an empty object.
func (b *content) object() map[string]any {
	text := b.text.String()
	switch b.kind {
	case "thinking":
		return map[string]any{"type": "thinking", "thinking": text, "signature": ""}
	case "tool_use":
		input := map[string]json.RawMessage{}
		if json.Unmarshal([]byte(text), &input) != nil || input == nil {
			input = map[string]json.RawMessage{}
		}
		return map[string]any{"type": "tool_use", "id": b.id, "name": b.name, "input": input}
	}
	return map[string]any{"type": "text", "text": text}
}
