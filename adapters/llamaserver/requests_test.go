package llamaserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// TestRequestsEqualThoseOfTheServer sends bodies to the server and to Requests. The server
// and Requests must send equal requests to the engine, or fail with the same status and
// sentence.
func TestRequestsEqualThoseOfTheServer(t *testing.T) {
	const template = "{% for m in messages %}{{ m.content }}{% endfor %}"
	tools := `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	statuses := map[int]int{}
	for _, c := range []struct{ path, body string }{
		{"/completion", `{"prompt":"Hi","seed":3}`},
		{"/completion", `{"prompt":[5,6],"n_predict":4,"n_keep":1,"temperature":0,"stop":["x",""],"seed":1}`},
		{"/completion", `{"prompt":"Hi","preserved_tokens":["<tool_call>","no"],"n_probs":2,"seed":1}`},
		{"/completion", `{"prompt":"Hi","grammar":"root ::= \"a\"","seed":1}`},
		{"/completion", `{"prompt":"Hi","json_schema":{"type":"object"},"seed":1}`},
		{"/completion", `{"prompt":"Hi","grammar":"root ::= ("}`},
		{"/completion", `{"prompt":"Hi","grammar":"root ::= \"a\"","json_schema":{}}`},
		{"/completion", `{"prompt":"Hi","n_probs":1000}`},
		{"/completion", `{"prompt":"Hi","image_data":[1]}`},
		{"/completion", `{"prompt":[9999]}`},
		{"/completion", `{"prompt":"` + strings.Repeat("a", 300) + `"}`},
		{"/completion", `{"prompt":"` + strings.Repeat("a", 4<<20) + `"}`},
		{"/completion", `{"prompt":`},
		{"/completion", `{}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"seed":1}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"seed":1,` + tools + `}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"seed":1,"tool_choice":"required",` + tools + `}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"seed":1,"response_format":{"type":"json_object"}}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"n":0}`},
		{"/v1/chat/completions", `{"messages":7}`},
		{"/v1/chat/completions", `{}`},
	} {
		m := &fakeModel{pieces: texted("a"), context: 200, template: template}
		answer := post(t, m, c.path, c.body)
		q := NewRequests(&fakeModel{context: 200, template: template}, false)
		var got engine.Request
		var err error
		if c.path == "/completion" {
			got, err = q.Completion(t.Context(), []byte(c.body))
		} else {
			got, _, err = q.Chat(t.Context(), []byte(c.body))
		}
		name := c.path + " " + c.body[:min(len(c.body), 100)]
		statuses[answer.Code]++
		if answer.Code != http.StatusOK {
			require.Error(t, err, name)
			require.Equal(t, answer.Code, Status(err), name)
			require.Contains(t, answer.Body.String(), strings.ReplaceAll(err.Error(), `"`, ``)[:10], name)
			continue
		}
		require.NoError(t, err, name)
		want := m.seen[0]
		require.Equal(t, want.Grammar == nil, got.Grammar == nil, name)
		want.Grammar, got.Grammar = nil, nil // do not compare compiled grammars, whose caches may differ
		require.Equal(t, want, got, name)
	}
	require.GreaterOrEqual(t, statuses[http.StatusOK], 9)
	require.GreaterOrEqual(t, statuses[http.StatusBadRequest], 8)
	require.Equal(t, 1, statuses[http.StatusRequestEntityTooLarge])
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := NewRequests(&fakeModel{encoded: make(chan int)}, true) // the fake model's Encode waits until its context is done
	_, err := q.Completion(ctx, []byte(`{"prompt":"Hi"}`))
	require.ErrorIs(t, err, context.Canceled)
	_, err = q.Tokens(ctx, "a", true)
	require.ErrorIs(t, err, context.Canceled)
}
