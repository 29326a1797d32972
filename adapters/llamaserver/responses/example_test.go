package responses_test

import (
	"encoding/json"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/chat/parse"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/responses"
)

// A client sends the result of a call back as an input item.
func ExampleInput() {
	var in responses.Input
	if err := json.Unmarshal([]byte(`[
		{"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "a", "output": "rain"}]`), &in); err != nil {
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
	answer := responses.NewAnswer(responses.Header{Model: "m"}, func(prefix string) string { return prefix + "1" })
	events := answer.Add(parse.Delta{Content: "Hello"})
	events = append(events, answer.End(false, responses.Usage{Input: 3, Output: 1})...)
	for _, e := range events {
		fmt.Println(e.Data["sequence_number"], e.Name)
	}
	// Output:
	// 0 response.created
	// 1 response.in_progress
	// 2 response.output_item.added
	// 3 response.content_part.added
	// 4 response.output_text.delta
	// 5 response.output_text.done
	// 6 response.content_part.done
	// 7 response.output_item.done
	// 8 response.completed
}
