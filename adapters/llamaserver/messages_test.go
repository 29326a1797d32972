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

// messageTool is weatherTool in the form of /v1/messages.
const messageTool = `{"name":"weather","description":"w","input_schema":{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}}`

// messageIDs matches the random parts of IDs in answers of /v1/messages.
var messageIDs = regexp.MustCompile(`((?:msg|toolu)_)[A-Z2-7]+`)

// messageEvents returns the data of a streamed answer's events, without random parts. Each event
// has the name that its data gives.
func messageEvents(t *testing.T, raw string) (data []string) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		name, event, ok := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		require.True(t, ok, part)
		require.Contains(t, event, `"type":"`+name+`"`)
		data = append(data, messageIDs.ReplaceAllString(event, "$1"))
	}
	return data
}

func TestMessagesAreChatsInAnthropicsForm(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: plainTemplate, pieces: texted("Hello", " Oslo")}
	s.SetModel(m)
	for body, prompt := range map[string]string{
		`{"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`:                                                                                                 "<s><user>Hi<assistant>",
		`{"system":"S","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`:                                                "<s><system>S<user>ab<assistant>",
		`{"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"He"}]}`: "<s><system>S<user>Hi<assistant>He",
	} {
		status, raw := servertest.Ask(t, "POST", url+"/v1/messages", body)
		require.Equal(t, http.StatusOK, status, raw)
		require.Equal(t, prompt, m.Decode(m.lastSeen(t).Prompt))
		require.JSONEq(t, `{"id":"msg_","type":"message","role":"assistant","model":"fake.gguf","content":[{"type":"text","text":"Hello Oslo"}],
			"stop_reason":"end_turn","stop_sequence":null,
			"usage":{"input_tokens":`+number(len(m.lastSeen(t).Prompt)-1)+`,"cache_read_input_tokens":1,"cache_creation_input_tokens":0,"output_tokens":2}}`,
			messageIDs.ReplaceAllString(raw, "$1"))
		status, raw = servertest.Ask(t, "POST", url+"/v1/messages/count_tokens", body)
		require.Equal(t, http.StatusOK, status, raw)
		require.JSONEq(t, `{"input_tokens":`+number(len(m.lastSeen(t).Prompt))+`}`, raw)
	}
	request := m.lastSeen(t)
	require.Positive(t, request.MaxTokens)

	m.report = &engine.Report{Stop: engine.StopLimit, PromptTokens: 3, OutputTokens: 4}
	_, raw := servertest.Ask(t, "POST", url+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}`)
	got := strings.Join(messageEvents(t, raw), "\n")
	require.Equal(t, strings.TrimSpace(`
{"message":{"content":[],"id":"msg_","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":23,"output_tokens":0}},"type":"message_start"}
{"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}
{"delta":{"text":"Hello","type":"text_delta"},"index":0,"type":"content_block_delta"}
{"delta":{"text":" Oslo","type":"text_delta"},"index":0,"type":"content_block_delta"}
{"index":0,"type":"content_block_stop"}
{"delta":{"stop_reason":"max_tokens","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":3,"output_tokens":4}}
{"type":"message_stop"}`), got)

	m.report = &engine.Report{Stop: engine.StopWord, StopWord: "END"}
	_, raw = servertest.Ask(t, "POST", url+"/v1/messages", `{"messages":[{"role":"user","content":"Hi"}],"stop_sequences":["END"]}`)
	require.Contains(t, raw, `"stop_reason":"stop_sequence","stop_sequence":"END"`)
	require.Equal(t, []string{"END"}, m.lastSeen(t).Stop)
}

func TestMessagesCallTools(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: toolTemplate, pieces: texted("Hm", ".\n</th", "ink>", "\n\nI ask", ".\n<tool", "_call>\n{\"name\": \"weather\", \"argu", "ments\": {\"at\":\"Oslo\"}}\n</tool_call>")}
	s.SetModel(m)
	body := `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[` + messageTool + `],"tool_choice":{"type":"auto"}`
	_, raw := servertest.Ask(t, "POST", url+"/v1/messages", body+`}`)
	var whole struct {
		Content json.RawMessage
		Reason  string `json:"stop_reason"`
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &whole))
	require.Equal(t, "tool_use", whole.Reason)
	require.JSONEq(t, `[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"text","text":"I ask."},
		{"type":"tool_use","id":"toolu_","name":"weather","input":{"at":"Oslo"}}]`, messageIDs.ReplaceAllString(string(whole.Content), "$1"))
	require.Contains(t, m.Decode(m.lastSeen(t).Prompt), `"name": "weather"`)

	// The stream has the same blocks.
	_, raw = servertest.Ask(t, "POST", url+"/v1/messages", body+`,"stream":true}`)
	texts, kinds := map[int]string{}, []string{}
	for _, event := range messageEvents(t, raw) {
		var e struct {
			Type  string
			Index int
			Block struct{ Type string } `json:"content_block"`
			Delta struct {
				Text, Thinking string
				JSON           string `json:"partial_json"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(event), &e))
		if e.Type == "content_block_start" {
			require.Len(t, kinds, e.Index)
			kinds = append(kinds, e.Block.Type)
		}
		texts[e.Index] += e.Delta.Text + e.Delta.Thinking + e.Delta.JSON
	}
	require.Equal(t, []string{"thinking", "text", "tool_use"}, kinds)
	require.Equal(t, map[int]string{0: "Hm.", 1: "I ask.", 2: `{"at":"Oslo"}`}, texts)
	require.Contains(t, raw, "signature_delta")
	require.Contains(t, raw, `"stop_reason":"tool_use"`)

	m.pieces = texted(`{"name":"weather","arguments":{"at":"Oslo"}}`)
	for _, choice := range []string{`{"type":"any"}`, `{"type":"tool","name":"weather"}`} {
		_, raw = servertest.Ask(t, "POST", url+"/v1/messages", strings.Replace(body, `{"type":"auto"}`, choice, 1)+`}`)
		require.NotNil(t, m.lastSeen(t).Grammar)
		require.Contains(t, raw, `"input":{"at":"Oslo"}`)
	}
}

func TestMessagesTakeTheirOwnOutputAsInput(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{pieces: texted("ok"), template: "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }}" +
		"{% for c in m.tool_calls %}[{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}{{ m.tool_call_id }}{% endfor %}"}
	s.SetModel(m)
	status, raw := servertest.Ask(t, "POST", url+"/v1/messages", `{"system":"S","tools":[`+messageTool+`],"messages":[
		{"role":"user","content":"Weather?"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"I ask."},
			{"type":"tool_use","id":"a","name":"weather","input":{"at": "Oslo"}},{"type":"tool_use","id":"b","name":"weather","input":{}}]},
		{"role":"user","content":[{"type":"text","text":"Here"},{"type":"tool_result","tool_use_id":"a","content":"rain"},
			{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"sun"}]}]}]}`)
	require.Equal(t, http.StatusOK, status, raw)
	require.Equal(t, `<system>|S<user>|Weather?<assistant>Hm.|I ask.[a weather {"at": "Oslo"}][b weather {}]<tool>|raina<tool>|sunb<user>|Here`,
		strings.TrimPrefix(m.Decode(m.lastSeen(t).Prompt), "<s>"))
}

func TestMessagesRefuseWhatTheyCannotDo(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: plainTemplate}
	s.SetModel(m)
	for body, want := range map[string]string{
		`{}`:                             "no messages",
		`{"messages":[]}`:                "no messages",
		`{"messages":5}`:                 "not understood",
		`{"messages":[{"content":"a"}]}`: "has the role",
		`{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`:                        "text only",
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64"}}]}]}`:      "text only",
		`{"messages":[{"role":"user","content":[{"type":"search_result"}]}]}`:                            "want text",
		`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`:                              "tool_use_id",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]}]}`:                 "an id",
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"web_search","name":"w"}]}`:        "want tools of the type custom",
		`{"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"tool"}}`:                     "tool_choice",
		`{"messages":[{"role":"user","content":"a"}],"n":2}`:                                             "several answers",
		`{"messages":[{"role":"user","content":"a"}],"output_config":{"format":{"type":"json_schema"}}}`: "add the schema",
	} {
		status, raw := servertest.Ask(t, "POST", url+"/v1/messages", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, raw, want)
		require.Contains(t, raw, `"type":"invalid_request_error"`)
		require.Contains(t, raw, `"type":"error"`)
	}
	require.Empty(t, m.seen)
}
