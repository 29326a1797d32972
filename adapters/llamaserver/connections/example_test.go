package connections_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/connections"
)

func Example() {
	limit := connections.New(1000)
	server := httptest.NewUnstartedServer(connections.Unread(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/read" {
			return // the answer is sent, and the connection is closed
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !connections.Arrived(w, r) {
			http.Error(w, "ask again later", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, string(body))
	})))
	server.Config.ConnState, server.Config.ConnContext = limit.Changed, limit.Remember
	server.Start()
	defer server.Close()
	for _, path := range []string{"/read", "/refuse"} {
		answer, err := http.Post(server.URL+path, "text/plain", strings.NewReader("a body"))
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Printf("%q, closed: %t\n", text, answer.Close)
	}
	// Output:
	// "a body", closed: false
	// "", closed: true
}
