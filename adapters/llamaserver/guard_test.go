package llamaserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// guarded sends a request with the given headers, which may include "Host", and returns the
// answer.
func guarded(t *testing.T, s *Server, method, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(`{"prompt":"a","content":"a","stream":true}`))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestPagesOfOtherSitesAreRejected(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	defer s.Close()
	m := &fakeModel{pieces: texted("ok")}
	s.SetModel(m)
	endpoints := [][2]string{
		{"GET", "/health"},
		{"GET", "/v1/health"},
		{"POST", "/completion"},
		{"POST", "/tokenize"},
		{"POST", "/detokenize"},
		{"POST", "/apply-template"},
		{"GET", "/nothing"},
		{"OPTIONS", "/completion"},
	}
	for _, headers := range []string{
		"Sec-Fetch-Site: cross-site",
		"Sec-Fetch-Site: same-site",
		"Sec-Fetch-Site: future-site",
		"Sec-Fetch-Site: none|Sec-Fetch-Site: cross-site",
		"Origin: http://evil.example",
		"Origin: https://evil.example:8443",
		"Origin: null",
		"Origin: ",
		"Origin: file://",
		"Origin: app://localhost",
		"Origin: http://localhost.evil.example",
		"Origin: http://127.0.0.1.evil.example",
		"Origin: http://evil.example/127.0.0.1",
		"Origin: http://localhost@evil.example",
		"Origin: http://evil.example#localhost",
		"Origin: http://192.168.1.2",
		"Origin: http://localhost|Origin: http://evil.example",
		"Host: evil.example",
		"Host: evil.example:8080",
		"Host: localhost.evil.example",
		"Host: 127.0.0.1.evil.example",
		"Host: evil-localhost",
		"Host: 0.0.0.0:8080",
		"Host: [::]:8080",
		"Host: 192.168.1.2:8080",
		"Host: [fe80::1]:8080",
		"Host: [::1%25lo]:8080",
		"Host: [::1]evil.example",
		"Host: [::1",
		"Host: [127.0.0.1]",
		"Host: ::1",
		"Host: localhost:evil",
		"Host: localhost:808080",
		"Host: localhost..",
		"Host: 2130706433", // 2130706433 is 127.0.0.1 as one number; browsers send the address with dots
		"Host: 127.1",
		"Host: .",
		"Host: evil.example|Sec-Fetch-Site: same-origin", // DNS rebinding
	} {
		for _, e := range endpoints {
			w := guarded(t, s, e[0], e[1], strings.Split(headers, "|")...)
			require.Equal(t, http.StatusForbidden, w.Code, "%s %s %s", headers, e[0], e[1])
			require.NotContains(t, w.Body.String(), "evil", "the page chose this text")
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	require.Empty(t, m.seen, "no request of a page reaches the model")
	for _, headers := range []string{
		"Host: ", // HTTP/1.0
		"Host: 127.0.0.1:36053",
		"Host: 127.0.0.1",
		"Host: 127.9.9.9:1",
		"Host: localhost:8080",
		"Host: LocalHost",
		"Host: localhost.:8080",
		"Host: 127.0.0.1.:8080",
		"Host: [::1]:8080",
		"Host: [::1]",
		"Host: [::ffff:127.0.0.1]:8080",
		"Sec-Fetch-Site: none",
		"Sec-Fetch-Site: same-origin|Origin: http://localhost:8080",
		"Origin: http://127.0.0.1:3000",
		"Origin: https://LOCALHOST",
		"Origin: http://[::1]:3000",
	} {
		w := guarded(t, s, "POST", "/completion", strings.Split(headers, "|")...)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", headers, w.Body)
	}
}

// A server that other machines reach does not know all of its own names, so it accepts
// any Host header, but still rejects web pages.
func TestOpenServerAcceptsAnyHostButNoPage(t *testing.T) {
	s, err := New(Options{Addr: "0.0.0.0:0", WithoutKey: true})
	require.NoError(t, err)
	defer s.Close()
	s.SetModel(&fakeModel{pieces: texted("ok")})
	require.Equal(t, http.StatusOK, guarded(t, s, "POST", "/completion", "Host: npu.lan:8080").Code)
	for _, h := range []string{"Sec-Fetch-Site: cross-site", "Origin: http://evil.example", "Origin: http://npu.lan:8080"} {
		require.Equal(t, http.StatusForbidden, guarded(t, s, "POST", "/completion", "Host: npu.lan:8080", h).Code, h)
	}
}
