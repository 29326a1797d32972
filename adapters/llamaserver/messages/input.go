package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/chat"
)

// Input is the conversation of a request: the messages of users and of the model, whose contents
// are texts or lists of blocks.
type Input []chat.Message

// UnmarshalJSON implements [json.Unmarshaler].
func (in *Input) UnmarshalJSON(raw []byte) error {
	*in = nil
	var turns []struct {
		Role    string
		Content blocks
	}
	if err := json.Unmarshal(raw, &turns); err != nil {
		return err
	}
	for _, turn := range turns {
		var err error
		switch turn.Role {
		case "user", "system":
			err = in.user(turn.Role, turn.Content)
		case "assistant":
			err = in.assistant(turn.Content)
		default:
			err = fmt.Errorf("a message has the role %.40q: want user, assistant or system", turn.Role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// user adds the texts of a message and the results of tools in it. In a chat, each result is a
// message; the results answer the last message of the model, so they come before the texts.
func (in *Input) user(role string, content blocks) error {
	var text strings.Builder
	spoke := len(content) == 0
	for _, b := range content {
		switch b.Type {
		case "text":
			text.WriteString(b.Text)
			spoke = true
		case "tool_result":
			if b.ToolUseID == "" {
				return errors.New("a block of the type tool_result needs a tool_use_id")
			}
			result, err := b.Content.text()
			if err != nil {
				return err
			}
			*in = append(*in, chat.Message{Role: "tool", Content: result, ToolCallID: b.ToolUseID})
		case "document":
			part, err := b.document()
			if err != nil {
				return err
			}
			text.WriteString(part)
			spoke = true
		default:
			return b.refuse("text or tool_result")
		}
	}
	if spoke {
		*in = append(*in, chat.Message{Role: role, Content: text.String()})
	}
	return nil
}

// assistant adds a message of the model with its thoughts and tool calls.
func (in *Input) assistant(content blocks) error {
	m := chat.Message{Role: "assistant"}
	for _, b := range content {
		switch b.Type {
		case "text":
			m.Content += b.Text
		case "thinking":
			m.Reasoning += b.Thinking
		case "redacted_thinking": // the thoughts are encrypted for another server
		case "tool_use":
			if b.Name == "" || b.ID == "" {
				return errors.New("a block of the type tool_use needs a name and an id")
			}
			arguments := bytes.Buffer{}
			if len(b.Input) == 0 || b.Input[0] != '{' {
				b.Input = json.RawMessage("{}")
			}
			if err := json.Compact(&arguments, b.Input); err != nil {
				return err
			}
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: arguments.String()})
		default:
			return b.refuse("text, thinking or tool_use")
		}
	}
	*in = append(*in, m)
	return nil
}

// Chat returns the conversation as the messages of a chat. If there are instructions, they are
// the first message.
func (in Input) Chat(instructions System) (json.RawMessage, error) {
	list := []chat.Message(in)
	if instructions != "" {
		list = append([]chat.Message{{Role: "system", Content: string(instructions)}}, list...)
	}
	return json.Marshal(list)
}

// System holds the instructions of a request, which are a text or a list of texts.
type System string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *System) UnmarshalJSON(raw []byte) error {
	var list blocks
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	text, err := list.text()
	*s = System(text)
	return err
}

// block is a part of a content.
type block struct {
	Type, Text, Thinking, ID, Name string
	ToolUseID                      string `json:"tool_use_id"`
	Input                          json.RawMessage
	Content                        blocks
	Source                         struct{ Type, Data string }
}

// blocks is a content: a text, or a list of blocks.
type blocks []block

// UnmarshalJSON implements [json.Unmarshaler].
func (l *blocks) UnmarshalJSON(raw []byte) error {
	*l = nil
	switch raw[0] {
	case 'n':
		return nil
	case '"':
		*l = blocks{{Type: "text"}}
		return json.Unmarshal(raw, &(*l)[0].Text)
	case '[':
		var list []block
		err := json.Unmarshal(raw, &list)
		*l = list
		return err
	}
	return nil // a document's content may be an object, which the method document refuses
}

// text returns the joined texts of blocks.
func (l blocks) text() (string, error) {
	var text strings.Builder
	for _, b := range l {
		if b.Type != "text" {
			return "", b.refuse("text")
		}
		text.WriteString(b.Text)
	}
	return text.String(), nil
}

// document returns the text of a document that is given as text.
func (b block) document() (string, error) {
	if b.Source.Type != "text" {
		return "", chat.ErrMedia
	}
	return b.Source.Data, nil
}

// refuse returns the error for a block of a type that has no place here.
func (b block) refuse(want string) error {
	if b.Type == "image" || b.Type == "document" {
		return chat.ErrMedia
	}
	return fmt.Errorf("a content has a block of the type %.40q: want %s", b.Type, want)
}
