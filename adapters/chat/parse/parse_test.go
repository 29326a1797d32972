package parse

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	hermes  = "<think></think><tool_call></tool_call>"
	mistral = "[TOOL_CALLS]"
	llama   = "<|python_tag|>"
	granite = "<|tool_call|>"
	phi     = "<|tool_call|><|/tool_call|>"
	command = "<|START_THINKING|><|END_THINKING|><|START_RESPONSE|><|END_RESPONSE|><|START_ACTION|><|END_ACTION|>"
	older   = "Action:"
)

var examples = []struct {
	name, template, prompt, text string
	want                         Delta
}{
	{"plain", hermes, "", "Hello <b>", Delta{Content: "Hello <b>"}},
	{"thoughts", hermes, "", "<think>\nHm. \n</think>\n\nHi\n", Delta{Content: "Hi\n", Reasoning: "Hm."}},
	{"thoughts begun by the prompt", hermes, "assistant\n<think>\n", "Hm.\n</think>\n\nHi", Delta{Content: "Hi", Reasoning: "Hm."}},
	{"thoughts without an end", hermes, "<think>", "Hm. ", Delta{Reasoning: "Hm."}},
	{"no thoughts", hermes, "", "2 <think> 1", Delta{Content: "2 <think> 1"}},
	{"hermes", hermes, "", "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call> é\"}}\n</tool_call>", Delta{Content: "Let me see.", Calls: []Call{{"f", `{"a":"</tool_call> é"}`}}}},
	{"two calls", hermes, "", "<think>x</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{\"b\":1}}</tool_call>\n", Delta{Reasoning: "x", Calls: []Call{{"f", "{}"}, {"g", `{"b":1}`}}}},
	{"a broken call", hermes, "", "<tool_call>{\"name\": </tool_call>", Delta{Content: "<tool_call>{\"name\": </tool_call>"}},
	{"a call without an end", hermes, "", "<tool_call>\n{\"name\":\"f\",\"arguments\":{}}", Delta{Calls: []Call{{"f", "{}"}}}},
	{"qwen coder", hermes, "", "<tool_call>\n<function=f>\n<parameter=city>\nOslo\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>", Delta{Calls: []Call{{"f", `{"city":"Oslo","n":2}`}}}},
	{"mistral", mistral, "", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"123456789\"}]", Delta{Calls: []Call{{"f", `{"a":1}`}}}},
	{"newer mistral", mistral, "", "ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123[ARGS]{}", Delta{Content: "ok", Calls: []Call{{"f", `{"a":1}`}, {"g", "{}"}}}},
	{"llama", llama, "", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", Delta{Calls: []Call{{"f", `{"a":1}`}}}},
	{"llama, two calls", llama, "", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", Delta{Calls: []Call{{"f", "{}"}, {"g", "{}"}}}},
	{"llama with a tag", llama, "", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": [1]}}", Delta{Calls: []Call{{"f", `{"a":[1]}`}}}},
	{"llama, built-in", llama, "", "<|python_tag|>brave_search.call(query=\"a (b)\")", Delta{Calls: []Call{{"brave_search", `{"query":"a (b)"}`}}}},
	{"llama, JSON that is no call", llama, "", "{\"a\": 1} is JSON", Delta{Content: "{\"a\": 1} is JSON"}},
	{"granite", granite, "", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", Delta{Calls: []Call{{"f", "{}"}}}},
	{"phi", phi, "", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", Delta{Calls: []Call{{"f", "{}"}}}},
	{"phi 4", "functools", "", "functools[{\"name\": \"f\", \"arguments\": {}}]", Delta{Calls: []Call{{"f", "{}"}}}},
	{"command-r", command, "", "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}]<|END_ACTION|>", Delta{Reasoning: "Hm.", Calls: []Call{{"f", `{"a":1}`}}}},
	{"command-r, a response", command, "", "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>", Delta{Content: "Hi", Reasoning: "Hm."}},
	{"older command-r", older, "", "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]\n```", Delta{Calls: []Call{{"f", "{}"}}}},
	{"generic", "", "", "{\"tool_call\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}", Delta{Calls: []Call{{"f", `{"a":1}`}}}},
	{"generic list", "", "", "{\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}", Delta{Calls: []Call{{"f", `{"a":1}`}}}},
}

func whole(f Format, prompt string, pieces ...string) (all Delta) {
	p := New(f, prompt)
	for _, piece := range pieces {
		all.add(p.Add(piece))
	}
	all.add(p.Close())
	return all
}

func TestEachFormIsRead(t *testing.T) {
	for _, e := range examples {
		require.Equal(t, e.want, whole(FormatOf(e.template, true), e.prompt, e.text), e.name)
	}
}

func TestWithoutToolsNothingIsACall(t *testing.T) {
	for _, e := range examples {
		require.Empty(t, whole(FormatOf(e.template, false), e.prompt, e.text).Calls, e.name)
	}
}

func cut(text string, rng *rand.Rand) (pieces []string) {
	for text != "" {
		n := 1 + rng.IntN(min(len(text), 9))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func TestCutsChangeNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, e := range examples {
		f := FormatOf(e.template, true)
		for i := range len(e.text) {
			require.Equal(t, e.want, whole(f, e.prompt, e.text[:i], e.text[i:]), "%s at %d", e.name, i)
		}
		for range 50 {
			pieces := cut(e.text, rng)
			require.Equal(t, e.want, whole(f, e.prompt, pieces...), "%s: %q", e.name, pieces)
		}
	}
}

func FuzzCutsChangeNothing(f *testing.F) {
	for i, e := range examples {
		f.Add(e.template, e.prompt, e.text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, template, prompt, text string, seed uint64) {
		if !utf8.ValidString(text) {
			return
		}
		format := FormatOf(template, true)
		once := whole(format, prompt, text)
		require.Equal(t, once, whole(format, prompt, cut(text, rand.New(rand.NewPCG(seed, 1)))...))
		for _, c := range once.Calls {
			require.True(t, json.Valid([]byte(c.Arguments)) && strings.HasPrefix(c.Arguments, "{"), c.Arguments)
			require.NotEmpty(t, c.Name)
		}
	})
}
