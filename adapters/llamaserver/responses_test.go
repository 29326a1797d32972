package llamaserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/servertest"
	"github.com/sdnpu/sdnpu/backend/engine"
)

func TestResponsesAreChatsInTheNewerForm(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: plainTemplate, pieces: texted("Hello", " from", "\n", "Oslo")}
	s.SetModel(m)
	type response struct {
		Status string
		Output []struct{ Content []struct{ Type, Text string } }
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	for body, prompt := range map[string]string{
		`{"input":"Hi","max_output_tokens":9}`: "<s><user>Hi<assistant>",
		`{"input":[{"role":"developer","content":"S"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]}`: "<s><system>S<user>ab<assistant>",
		`{"input":"Hi","instructions":"S"}`: "<s><system>S<user>Hi<assistant>",
	} {
		status, raw := servertest.Ask(t, "POST", url+"/v1/responses", body)
		require.Equal(t, http.StatusOK, status, raw)
		var got response
		require.NoError(t, json.Unmarshal([]byte(raw), &got))
		require.Equal(t, "completed", got.Status)
		require.Equal(t, "output_text", got.Output[0].Content[0].Type)
		require.Equal(t, "Hello from\nOslo", got.Output[0].Content[0].Text)
		require.Equal(t, prompt, m.Decode(m.lastSeen(t).Prompt))
		require.Equal(t, 4, got.Usage.Output)
		require.Equal(t, len(m.lastSeen(t).Prompt), got.Usage.Input)
	}

	m.report = &engine.Report{Stop: engine.StopLimit, OutputTokens: 4}
	_, raw := servertest.Ask(t, "POST", url+"/v1/responses", `{"input":"Hi","stream":true}`)
	text, names := "", []string{}
	for i, part := range strings.Split(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		require.True(t, ok, part)
		var e struct {
			Type, Delta string
			Number      int `json:"sequence_number"`
			Response    response
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		require.Equal(t, name, e.Type)
		require.Equal(t, i, e.Number)
		text += e.Delta
		names = append(names, strings.TrimPrefix(name, "response."))
		if name == "response.incomplete" {
			require.Equal(t, text, e.Response.Output[0].Content[0].Text)
		}
	}
	require.Equal(t, "Hello from\nOslo", text)
	require.Equal(t, "created in_progress output_item.added content_part.added output_text.delta output_text.delta output_text.delta output_text.delta "+
		"output_text.done content_part.done output_item.done incomplete", strings.Join(names, " "))
}

func TestResponsesRefuseWhatTheyCannotDo(t *testing.T) {
	s, url, _ := start(t, 1)
	m := &fakeModel{template: plainTemplate}
	s.SetModel(m)
	for body, want := range map[string]string{
		`{}`:           "no input",
		`{"input":[]}`: "no input",
		`{"input":5}`:  "not understood",
		`{"input":"a","previous_response_id":"r"}`:                       "keeps no conversations",
		`{"input":"a","tools":[{"type":"function"}]}`:                    "no name",
		`{"input":"a","tools":{}}`:                                       "not understood",
		`{"input":"a","tool_choice":"never"}`:                            "tool_choice",
		`{"input":"a","tool_choice":{"type":"allowed_tools"}}`:           "tool_choice",
		`{"input":"a","tool_choice":{"type":"function","name":"f"}}`:     "the request has no tools",
		`{"input":[{"type":"reasoning"}]}`:                               "no input",
		`{"input":[{"type":"item_reference","id":"m"}]}`:                 "want message",
		`{"input":[{"type":"message","content":"a"}]}`:                   "without a role",
		`{"input":[{"type":"function_call","name":"f"}]}`:                "call_id",
		`{"input":[{"type":"function_call_output","output":"f"}]}`:       "call_id",
		`{"input":[{"role":"user","content":5}]}`:                        "text or a list",
		`{"input":[null]}`:                                               "without a role",
		`{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`: "text only",
	} {
		status, raw := servertest.Ask(t, "POST", url+"/v1/responses", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, raw, want)
		require.Contains(t, raw, `"type":"invalid_request_error"`)
	}
	require.Empty(t, m.seen)
}
