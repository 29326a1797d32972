package access_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/access"
)

func ExampleGate() {
	key := "secret"
	policy, err := access.Read(access.Flags{APIKey: &key}, func(string) (string, bool) { return "", false })
	if err != nil {
		panic(err)
	}
	gate := access.Gate{Policy: policy, Loopback: true, Reject: func(w http.ResponseWriter, _ *http.Request, status int, sentence string) {
		http.Error(w, sentence, status)
	}}
	handler := gate.Handler(http.NotFoundHandler())
	for _, header := range []http.Header{
		{},
		{"Authorization": {"Bearer secret"}},
		{"Authorization": {"Bearer secret"}, "Origin": {"https://other.example"}},
	} {
		request := httptest.NewRequest("GET", "http://localhost/props", nil)
		request.Header = header
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		fmt.Println(answer.Code)
	}
	// Output:
	// 401
	// 404
	// 403
}
