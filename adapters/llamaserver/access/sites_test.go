package access_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/access"
)

// gate returns the handler of a Gate with Loopback set, which answers each request that
// the Gate accepts.
func gate(t *testing.T, sites string, policy access.Policy) http.Handler {
	list, err := access.ParseSites(sites, policy.HasKey())
	require.NoError(t, err)
	g := access.Gate{Policy: policy, Sites: list, Loopback: true, Reject: func(w http.ResponseWriter, _ *http.Request, status int, sentence string) {
		http.Error(w, sentence, status)
	}}
	return g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
}

// keyed returns the policy of a server whose requests need the given key.
func keyed(t *testing.T, key string) access.Policy {
	p, err := access.Read(access.Flags{APIKey: &key}, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return p
}

func TestOnlyListedSitesMaySendRequests(t *testing.T) {
	key := keyed(t, "secret")
	for _, test := range []struct {
		name, list, origin string
		policy             access.Policy
		allowed, shared    bool // shared is set if the answer has CORS headers
	}{
		{"off", "", "https://chat.example", access.Policy{}, false, false},
		{"listed", "https://chat.example, http://other.example:8000", "https://chat.example", access.Policy{}, true, true},
		{"listed with port", "https://chat.example,http://other.example:8000", "http://other.example:8000", access.Policy{}, true, true},
		{"other port", "https://chat.example", "https://chat.example:8443", access.Policy{}, false, false},
		{"other scheme", "https://chat.example", "http://chat.example", access.Policy{}, false, false},
		{"prefix", "https://chat.example", "https://chat.example.evil", access.Policy{}, false, false},
		{"null", "https://chat.example,localhost", "null", access.Policy{}, false, false},
		{"local", "localhost", "http://127.0.0.1:3000", access.Policy{}, true, true},
		{"not local", "localhost", "https://chat.example", access.Policy{}, false, false},
		{"every site, with a key", "*", "https://any.example", key, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler := gate(t, test.list, test.policy)
			send := func(method string, header ...string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(method, "http://localhost/v1/models", nil)
				r.Header.Set("Origin", test.origin)
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				for i := 0; i < len(header); i += 2 {
					r.Header.Set(header[i], header[i+1])
				}
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, r)
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
				if test.policy.HasKey() {
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
	handler := gate(t, "https://chat.example", access.Policy{})
	r := httptest.NewRequest("GET", "http://evil.example/v1/models", nil)
	r.Header.Set("Origin", "https://chat.example")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	require.Equal(t, http.StatusForbidden, answer.Code, "the Host header is checked still")
}

func TestBadListsOfSitesAreRefused(t *testing.T) {
	for _, list := range []string{"*", "chat.example", "https://", "https://a.example/path", "https://u@a.example", "ftp://a.example", "https://a.example?x"} {
		_, err := access.ParseSites(list, false)
		require.ErrorContains(t, err, "--cors-origins", list)
	}
}
