package llamaserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/browser"
)

// tally counts HTTP answers by their status.
type tally struct {
	mu    sync.Mutex
	count map[int]int
}

func (c *tally) add(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[int]int{}
	}
	c.count[status]++
}

func (c *tally) of(status int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[status]
}

// wrap counts the answers of a handler.
func (c *tally) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" { // a browser requests /favicon.ico without being asked
			http.NotFound(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		c.add(answer.Code)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// attackPage sends each kind of request that a page can send to another site without
// the consent of that site, and then sets the title of the page.
const attackPage = `<!doctype html><title>busy</title><iframe name=frame></iframe>
<form id=form method=post target=frame enctype=text/plain action="%[1]s/completion"><input name='{"prompt":"a","x":"' value='"}'></form>
<script>
const post = {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: '{"prompt":"a"}'};
const image = () => new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = "%[1]s/health"; });
const frame = () => new Promise(done => { document.querySelector("iframe").onload = done; document.getElementById("form").submit(); });
(async () => {
	await fetch("%[1]s/completion", post).catch(() => 0);
	await fetch("%[1]s/health", {mode: "no-cors"}).catch(() => 0);
	await image();
	await frame();
	document.title = "done";
})();
</script>`

// TestRealBrowserCannotReachTheModel opens a page of another site in a browser, and a page
// whose name leads to this machine (DNS rebinding). No request of the two pages may reach
// the model. To show that the pages work, the test also lets the pages send requests to a
// server without checks, and requires that these requests reach the model.
func TestRealBrowserCannotReachTheModel(t *testing.T) {
	newServer := func(handler func(*Server) http.Handler) (m *fakeModel, answers *tally, port string) {
		s, err := New(Options{Addr: "127.0.0.1:0"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		m, answers = &fakeModel{pieces: texted("secret answer")}, &tally{}
		s.SetModel(m)
		web := httptest.NewServer(answers.wrap(handler(s)))
		t.Cleanup(web.Close)
		_, port, err = net.SplitHostPort(web.Listener.Addr().String())
		require.NoError(t, err)
		return m, answers, port
	}
	page := ""
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	}))
	defer site.Close()
	_, sitePort, err := net.SplitHostPort(site.Listener.Addr().String())
	require.NoError(t, err)

	tab := browser.Tab(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	visit := func(address string) { require.NoError(t, chromedp.Do(tab, chromedp.Navigate(address))) }
	script := func(code string) string {
		answer, err := chromedp.Run(tab, chromedp.Evaluate[string](code))
		require.NoError(t, err)
		return answer
	}
	const read = `(() => { const r = new XMLHttpRequest(); r.open("POST", "/completion", false); r.send('{"prompt":"a"}'); return r.status + " " + r.responseText; })()`

	for _, guarded := range []bool{false, true} {
		handler, status := (*Server).endpoints, http.StatusOK
		if guarded {
			handler, status = (*Server).Handler, http.StatusForbidden
		}
		for _, target := range []string{"127.0.0.1", "localhost"} {
			m, answers, port := newServer(handler)
			page = fmt.Sprintf(attackPage, "http://"+net.JoinHostPort(target, port))
			visit("http://evil.example:" + sitePort)
			require.Eventually(t, func() bool { return script("document.title") == "done" }, 5*time.Minute, 20*time.Millisecond)
			require.Equal(t, 4, answers.of(status), "%s, guarded: %v: %v", target, guarded, answers.count)
			require.Equal(t, guarded, len(m.seen) == 0)

			visit("http://evil.example:" + port + "/health")
			got := script(read)
			require.Equal(t, guarded, strings.HasPrefix(got, "403 "), got)
			require.Equal(t, !guarded, strings.Contains(got, "secret answer"), got)
			require.Equal(t, guarded, len(m.seen) == 0)
		}
	}
}
