package llamaserver

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/servertest"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// flatTool is weatherTool in the form of /v1/responses, as OpenAI's Python client sends it.
const flatTool = `{"type":"function","name":"weather","description":"w","strict":true,"parameters":{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}}`

// randomIDs matches the random parts of IDs in answers of /v1/responses.
var randomIDs = regexp.MustCompile(`((?:resp|msg|fc|call|rs)_)[A-Z2-7]+`)

// responseEvents returns the data of a streamed answer's events by name, without random parts.
func responseEvents(t *testing.T, raw string) (names, data []string) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		name, event, ok := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		require.True(t, ok, part)
		names = append(names, strings.TrimPrefix(name, "response."))
		data = append(data, randomIDs.ReplaceAllString(event, "$1"))
	}
	return names, data
}

func TestResponsesCallTools(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: toolTemplate, pieces: texted("Hm", ".\n</th", "ink>", "\n\nI ask", ".\n<tool", "_call>\n{\"name\": \"weather\", \"argu", "ments\": {\"at\":\"Oslo\"}}\n</tool_call>")}
	s.SetModel(m)
	body := `{"model":"m","input":"x","tools":[` + flatTool + `],"tool_choice":"auto"`
	_, raw := servertest.Ask(t, "POST", url+"/v1/responses", body+`}`)
	var whole struct {
		Status     string
		Tools      []map[string]any
		ToolChoice string `json:"tool_choice"`
		Output     json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &whole))
	output := randomIDs.ReplaceAllString(string(whole.Output), "$1")
	require.JSONEq(t, `[
		{"id":"rs_","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
		{"id":"msg_","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I ask.","annotations":[]}]},
		{"id":"fc_","type":"function_call","status":"completed","call_id":"call_","name":"weather","arguments":"{\"at\":\"Oslo\"}"}]`, output)
	require.Equal(t, "completed", whole.Status)
	require.Equal(t, "auto", whole.ToolChoice)
	require.Equal(t, "weather", whole.Tools[0]["name"])
	require.Contains(t, m.Decode(m.lastSeen(t).Prompt), `"name": "weather"`)

	_, raw = servertest.Ask(t, "POST", url+"/v1/responses", body+`,"stream":true}`)
	names, data := responseEvents(t, raw)
	calls := names[len(names)-4-strings.Count(raw, "event: response.function_call_arguments.delta"):]
	require.Equal(t, "output_item.added", calls[0])
	require.Equal(t, "function_call_arguments.delta", calls[1])
	require.Equal(t, []string{"function_call_arguments.done", "output_item.done", "completed"}, calls[len(calls)-3:])
	require.Subset(t, names, []string{"reasoning_text.delta", "reasoning_text.done", "output_text.delta", "output_text.done"})
	n := len(data)
	require.JSONEq(t, `{"type":"response.output_item.added","sequence_number":`+number(n-len(calls))+`,"output_index":2,
		"item":{"id":"fc_","type":"function_call","status":"in_progress","call_id":"call_","name":"weather","arguments":""}}`, data[n-len(calls)])
	require.JSONEq(t, `{"type":"response.function_call_arguments.done","sequence_number":`+number(n-3)+`,"output_index":2,"item_id":"fc_",
		"name":"weather","arguments":"{\"at\":\"Oslo\"}"}`, data[n-3])
	var last struct {
		Response struct{ Output json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(data[n-1]), &last))
	require.JSONEq(t, output, string(last.Response.Output), "the stream ends with the whole answer")
	text := ""
	for i, name := range names {
		var e struct {
			Delta  string
			Number int `json:"sequence_number"`
		}
		require.NoError(t, json.Unmarshal([]byte(data[i]), &e))
		require.Equal(t, i, e.Number)
		if name == "function_call_arguments.delta" {
			text += e.Delta
		}
	}
	require.Equal(t, `{"at":"Oslo"}`, text)
}

// number returns a small number as JSON.
func number(n int) string {
	raw, _ := json.Marshal(n)
	return string(raw)
}

func TestResponsesTakeTheirOwnOutputAsInput(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{pieces: texted("ok"), template: "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }}" +
		"{% for c in m.tool_calls %}[{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}{{ m.tool_call_id }}{% endfor %}"}
	s.SetModel(m)
	status, raw := servertest.Ask(t, "POST", url+"/v1/responses", `{"instructions":"S","tools":[`+flatTool+`],"input":[
		{"role":"user","content":"Weather?"},
		{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}],"encrypted_content":null,"status":null},
		{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I ask.","annotations":[]}]},
		{"id":"fc_1","type":"function_call","status":"completed","call_id":"a","name":"weather","arguments":"{\"at\":\"Oslo\"}"},
		{"type":"function_call","call_id":"b","name":"weather","arguments":"{}"},
		{"type":"function_call_output","call_id":"a","output":"rain"},
		{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"sun"}]}]}`)
	require.Equal(t, http.StatusOK, status, raw)
	require.Equal(t, `<system>|S<user>|Weather?<assistant>Hm.|I ask.[a weather {"at": "Oslo"}][b weather {}]<tool>|raina<tool>|sunb`,
		strings.TrimPrefix(m.Decode(m.lastSeen(t).Prompt), "<s>"))
}

// Codex sends namespaces and the web search of OpenAI with each request.
func TestResponsesIgnoreToolsThatAreNoFunctions(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: toolTemplate, pieces: texted("Hello")}
	s.SetModel(m)
	hosted := `{"type":"namespace","name":"agents","description":"d","tools":[` + strings.Replace(flatTool, "weather", "inner", 1) + `]},
		{"type":"web_search","external_web_access":false},{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"x"}}`
	body := `{"input":"x","tools":[` + hosted + `,` + flatTool + `]`
	status, raw := servertest.Ask(t, "POST", url+"/v1/responses", body+`}`)
	require.Equal(t, http.StatusOK, status, raw)
	prompt := m.Decode(m.lastSeen(t).Prompt)
	require.Contains(t, prompt, `"name": "weather"`)
	for _, dropped := range []string{"agents", "inner", "web_search", "patch"} {
		require.NotContains(t, prompt, dropped)
		require.NotContains(t, raw, dropped)
	}
	status, raw = servertest.Ask(t, "POST", url+"/v1/responses", `{"input":"x","tools":[`+hosted+`]}`)
	require.Equal(t, http.StatusOK, status, raw)
	require.Contains(t, raw, `"tools":[]`)

	for request, want := range map[string]string{
		body + `,"tool_choice":{"type":"web_search"}}`:                    "tool_choice",
		body + `,"tool_choice":{"type":"function","name":"patch"}}`:       "not among the tools",
		`{"input":"x","tools":[` + hosted + `],"tool_choice":"required"}`: "tool_choice",
		`{"input":"x","tools":[{"name":"weather"}]}`:                      "no type",
		`{"input":"x","tools":[{"type":"function"}]}`:                     "no name",
		`{"input":"x","tools":["weather"]}`:                               "a tool is not understood: got string, want object",
		`{"input":"x","tools":[{"type":5}]}`:                              `a tool is not understood: \"type\": got number, want string`,
	} {
		status, raw = servertest.Ask(t, "POST", url+"/v1/responses", request)
		require.Equal(t, http.StatusBadRequest, status, raw)
		require.Contains(t, raw, want)
	}
}

func TestResponsesCallTheRequiredTool(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: toolTemplate, pieces: texted(`{"name":"weather","arguments":{"at":"Oslo"}}`)}
	s.SetModel(m)
	for _, choice := range []string{`"required"`, `{"type":"function","name":"weather"}`} {
		status, raw := servertest.Ask(t, "POST", url+"/v1/responses", `{"input":"x","tools":[`+flatTool+`],"tool_choice":`+choice+`}`)
		require.Equal(t, http.StatusOK, status, raw)
		require.NotNil(t, m.lastSeen(t).Grammar)
		require.Contains(t, raw, `"tool_choice":`+choice)
		require.Contains(t, raw, `"arguments":"{\"at\":\"Oslo\"}"`)
		require.NotContains(t, raw, "output_text")
	}
	_, raw := servertest.Ask(t, "POST", url+"/v1/responses", `{"input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}}`)
	require.NotNil(t, m.lastSeen(t).Grammar, raw)
}

func TestResponsesMarkACutCallAsIncomplete(t *testing.T) {
	s, url, _ := start(t, 1)
	s.SetModel(&fakeModel{
		template: toolTemplate, report: &engine.Report{Stop: engine.StopLimit, OutputTokens: 2},
		pieces: texted("x</think><tool_call>\n{\"name\": \"weather\", \"arguments\": {\"at\": \"Os"),
	})
	_, raw := servertest.Ask(t, "POST", url+"/v1/responses", `{"model":"m","input":"x","tools":[`+flatTool+`]}`)
	require.Contains(t, raw, `"status":"incomplete","type":"function_call"`)
	require.Contains(t, raw, `"incomplete_details":{"reason":"max_output_tokens"}`)
}
