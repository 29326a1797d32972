package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/chat"
)

// Input is the conversation of a request: a text, or a list of items.
type Input []chat.Message

// inputItem is a message, a part of a message of the model, or the result of a tool.
type inputItem struct {
	Type, Role, Name, Arguments string
	CallID                      string `json:"call_id"`
	Content, Summary, Output    content
}

// UnmarshalJSON implements [json.Unmarshaler].
func (in *Input) UnmarshalJSON(raw []byte) error {
	*in = nil
	if raw[0] == '"' {
		*in = Input{{Role: "user"}}
		return json.Unmarshal(raw, &(*in)[0].Content)
	}
	var items []inputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	for _, item := range items {
		if err := in.add(item); err != nil {
			return err
		}
	}
	return nil
}

// add adds an item to the conversation. In a request, the thoughts, the text and the calls of
// one turn of the model are separate items; in a chat, they are one message.
func (in *Input) add(item inputItem) error {
	switch item.Type {
	case "", "message":
		return in.message(item)
	case "reasoning":
		thoughts := string(item.Content)
		if thoughts == "" {
			thoughts = string(item.Summary)
		}
		if thoughts == "" {
			return nil // the thoughts are encrypted for another server
		}
		in.turn(func(m *chat.Message) bool { return m.Content == "" && len(m.ToolCalls) == 0 }).Reasoning += thoughts
	case "function_call":
		if item.Name == "" || item.CallID == "" {
			return errors.New("an input of the type function_call needs a name and a call_id")
		}
		m := in.turn(func(*chat.Message) bool { return true })
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
	case "function_call_output":
		if item.CallID == "" {
			return errors.New("an input of the type function_call_output needs a call_id")
		}
		*in = append(*in, chat.Message{Role: "tool", Content: string(item.Output), ToolCallID: item.CallID})
	default:
		return fmt.Errorf("an input has the type %.40q: want message, reasoning, function_call or function_call_output", item.Type)
	}
	return nil
}

// message adds a message with a role.
func (in *Input) message(item inputItem) error {
	switch item.Role {
	case "":
		return errors.New("an input is a message without a role: add the role")
	case "developer":
		item.Role = "system" // chat templates know only system, the older name of the role developer
	case "assistant":
		in.turn(func(m *chat.Message) bool { return m.Content == "" && len(m.ToolCalls) == 0 }).Content = string(item.Content)
		return nil
	}
	*in = append(*in, chat.Message{Role: item.Role, Content: string(item.Content)})
	return nil
}

// turn returns the last message if it is the model's and fits. Otherwise turn adds an empty
// message of the model.
func (in *Input) turn(fits func(*chat.Message) bool) *chat.Message {
	if n := len(*in); n == 0 || (*in)[n-1].Role != "assistant" || !fits(&(*in)[n-1]) {
		*in = append(*in, chat.Message{Role: "assistant"})
	}
	return &(*in)[len(*in)-1]
}

// Messages returns the conversation as the messages of a chat. If instructions are not empty,
// they are the first message.
func (in Input) Messages(instructions string) (json.RawMessage, error) {
	messages := []chat.Message(in)
	if instructions != "" {
		messages = append([]chat.Message{{Role: "system", Content: instructions}}, messages...)
	}
	return json.Marshal(messages)
}

// content is a text, or a list of parts with texts.
type content string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(c))
	}
	var parts []struct{ Type, Text, Refusal string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return errors.New("a content must be a text or a list of parts")
	}
	var text strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text", "reasoning_text", "summary_text":
			text.WriteString(p.Text)
		case "refusal":
			text.WriteString(p.Refusal)
		default:
			return chat.ErrMedia
		}
	}
	*c = content(text.String())
	return nil
}
