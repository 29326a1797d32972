package llamaserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/sampler"
)

func FuzzRequestBodiesAreAnsweredOrRefused(f *testing.F) {
	for i, body := range []string{
		streamed, `{"prompt":[1,2,3],"stream":false,"n_probs":3,"stop":"x"}`, `{"prompt":{"prompt_string":"a"},"stream":true}`,
		`{"prompt":"\ud800","seed":-9223372036854775808}`, `{"content":"A<|end|>","add_special":true}`, `{"tokens":[1,2147483648]}`,
		`[[[[`, `{"prompt":"a","n_keep":-9223372036854775808}`, `{"prompt":[1],"n_keep":9223372036854775807}`, `{"prompt":"a","stop":[null]}`, `{"prompt":"a","top_p":-3e38,"repeat_last_n":-9}`,
		`{"prompt":["a"],"max_tokens":-5,"logprobs":0,"stream_options":{"include_usage":true},"stream":true}`, `{"prompt":[["a"]]}`, `{"input":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true}`, `{"input":"a","instructions":"b"}`, `{"prompt":[[[1]]],"n":1}`, `{"prompt":[ ]}`, `{"prompt":"a","logprobs":3}`,
	} {
		f.Add(uint8(i), body)
	}
	f.Add(uint8(4), `{"input":[{"type":"function_call","call_id":"a","name":"weather","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"x"}]}],"tools":[`+flatTool+`],"tool_choice":{"type":"function","name":"weather"}}`)
	f.Add(uint8(4), `{"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]},{"type":"function_call_output","call_id":"a","output":null}],"tool_choice":null,"text":{"format":{"type":"json_object"}},"reasoning":{"effort":"none"},"stream":true}`)
	for _, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]}],"stream":true}`,
		`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":1}},{"type":"thinking","thinking":"t"}]},{"role":"user","content":"x"}],"tools":[` + messageTool + `],"tool_choice":{"type":"any"}}`,
		`{"messages":[{"role":"user","content":"x"}],"output_config":{"format":{"type":"json_schema","schema":{}}},"thinking":{"type":"disabled"},"stop_sequences":["a"]}`,
	} {
		f.Add(uint8(5), body)
		f.Add(uint8(6), body)
	}
	f.Add(uint8(0), `{"prompt":["a",5,"b"],"n":2,"logit_bias":[["a",-1],[5,false]],"response_fields":["content"],"stream":true,"return_progress":true,"timings_per_token":true}`)
	f.Add(uint8(3), `{"prompt":["a",[5,"b"],{"prompt_string":"c"}],"n":2,"logit_bias":{"5":1e99,"a":false},"model":"m"}`)
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	m := &fakeModel{template: plainTemplate, pieces: texted("one", "\n", " two")}
	s.SetModel(m)
	paths := []string{"/completion", "/tokenize", "/detokenize", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		m.seen = nil
		path := paths[int(which)%len(paths)]
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body)))
		if answer.Code != http.StatusOK {
			require.Equal(t, http.StatusBadRequest, answer.Code, "%s", answer.Body)
			require.NotEmpty(t, answer.Body.String())
			require.Empty(t, m.seen, "a refused request must not run")
			return
		}
		for _, r := range m.seen {
			require.NotEmpty(t, r.Prompt)
			require.Less(t, len(r.Prompt), m.Limits().Context)
			require.NotContains(t, r.Stop, "")
			require.True(t, r.Keep >= 0 && r.Keep <= len(r.Prompt), "%d", r.Keep)
			for _, id := range r.Prompt {
				require.True(t, id >= 0 && int(id) < m.Limits().Vocab)
			}
			// The sampler accepts each value that a client can send, or returns an error.
			if _, err := sampler.New(r.Sampling); err != nil {
				require.ErrorIs(t, err, sampler.ErrOptions)
			}
		}
		// A client that asks for several answers or for progress is not Ollama, which rejects empty events.
		plain := len(m.seen) == 1 && !strings.Contains(answer.Body.String(), "prompt_progress")
		if path == "/completion" && plain && strings.HasPrefix(answer.Header().Get("Content-Type"), "text/event-stream") {
			got, err := readStream(answer.Body.Bytes())
			require.NoError(t, err)
			require.Equal(t, "one\n two", got.text)
		}
	})
}
