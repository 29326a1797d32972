package llamaserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyListedSitesMaySendRequests(t *testing.T) {
	key := Access{}
	require.True(t, key.add([]string{"secret"}))
	for _, test := range []struct {
		name, list, origin string
		access             Access
		allowed, shared    bool // shared is set if the answer has CORS headers
	}{
		{"off", "", "https://chat.example", Access{}, false, false},
		{"listed", "https://chat.example, http://other.example:8000", "https://chat.example", Access{}, true, true},
		{"listed with port", "https://chat.example,http://other.example:8000", "http://other.example:8000", Access{}, true, true},
		{"other port", "https://chat.example", "https://chat.example:8443", Access{}, false, false},
		{"other scheme", "https://chat.example", "http://chat.example", Access{}, false, false},
		{"prefix", "https://chat.example", "https://chat.example.evil", Access{}, false, false},
		{"null", "https://chat.example,localhost", "null", Access{}, false, false},
		{"local", "localhost", "http://127.0.0.1:3000", Access{}, true, true},
		{"not local", "localhost", "https://chat.example", Access{}, false, false},
		{"every site, with a key", "*", "https://any.example", key, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := New(Options{Addr: "127.0.0.1:0", CORSOrigins: test.list, Access: test.access})
			require.NoError(t, err)
			defer s.Close()
			s.SetModel(&fakeModel{})
			send := func(method string, header ...string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(method, "http://localhost/v1/models", nil)
				r.Header.Set("Origin", test.origin)
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				for i := 0; i < len(header); i += 2 {
					r.Header.Set(header[i], header[i+1])
				}
				answer := httptest.NewRecorder()
				s.Handler().ServeHTTP(answer, r)
				return answer
			}
			question, request := send("OPTIONS", "Access-Control-Request-Method", "POST"), send("GET", "Authorization", "Bearer secret")
			origin := ""
			if test.shared {
				origin = test.origin
			}
			require.Equal(t, origin, request.Header().Get("Access-Control-Allow-Origin"))
			require.Empty(t, request.Header().Get("Access-Control-Allow-Credentials"))
			if test.allowed {
				require.Equal(t, http.StatusOK, request.Code)
				require.Equal(t, http.StatusNoContent, question.Code, "the question of the browser needs no key")
				require.Contains(t, question.Header().Get("Access-Control-Allow-Headers"), "Authorization")
				if test.access.HasKey() {
					require.Equal(t, http.StatusUnauthorized, send("GET").Code)
				}
				return
			}
			require.Equal(t, http.StatusForbidden, request.Code)
			require.Equal(t, http.StatusForbidden, question.Code)
			require.Empty(t, question.Header().Get("Access-Control-Allow-Methods"))
		})
	}
}

func TestListedSitesDoNotOpenTheServerToOtherNames(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0", CORSOrigins: "https://chat.example"})
	require.NoError(t, err)
	defer s.Close()
	r := httptest.NewRequest("GET", "http://evil.example/v1/models", nil)
	r.Header.Set("Origin", "https://chat.example")
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, r)
	require.Equal(t, http.StatusForbidden, answer.Code, "the Host header is checked still")
}

func TestBadListsOfSitesAreRefused(t *testing.T) {
	for _, list := range []string{"*", "chat.example", "https://", "https://a.example/path", "https://u@a.example", "ftp://a.example", "https://a.example?x"} {
		_, err := New(Options{Addr: "127.0.0.1:0", CORSOrigins: list})
		require.ErrorIs(t, err, ErrArguments, list)
		require.ErrorContains(t, err, "--cors-origins")
	}
}
