package messages_test

import (
	"encoding/json"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/chat/parse"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/messages"
)

// A client sends the result of a call back in a message of the user.
func ExampleInput() {
	var in messages.Input
	if err := json.Unmarshal([]byte(`[
		{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "rain"}]}]`), &in); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range in {
		fmt.Printf("%s: %q, %d calls\n", m.Role, m.Content, len(m.ToolCalls))
	}
	// Output:
	// assistant: "", 1 calls
	// tool: "rain", 0 calls
}

func ExampleAnswer() {
	answer := messages.NewAnswer("m", 3, func(prefix string) string { return prefix + "1" })
	events := answer.Add(parse.Delta{Content: "Hello"})
	for _, e := range append(events, answer.End(messages.End{}, messages.Usage{Input: 3, Output: 1})...) {
		fmt.Println(e.Name)
	}
	// Output:
	// message_start
	// content_block_start
	// content_block_delta
	// content_block_stop
	// message_delta
	// message_stop
}
