package llamaserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/servertest"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/internal/browser"
)

// busyEngine returns a state in which the NPU works half of the time.
func busyEngine() func() engine.State {
	began, calls := time.Now(), atomic.Int64{}
	return func() engine.State {
		return engine.State{
			Passes: 100 + calls.Add(1), NPU: time.Since(began) / 2, Context: 512, Widths: []int{128, 32, 1}, Loaded: 3,
			Memory:   engine.Memory{Programs: 300 << 20, Cache: 20 << 20, IO: 3 << 20},
			Resident: []graphswap.Variant{graphswap.Both, graphswap.Decode, graphswap.None},
		}
	}
}

func TestStatusPageShowsWhatTheServerDoes(t *testing.T) {
	s, url, _ := start(t, 2)
	ended, handedOut := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	const long = "a-model-with-a-name-that-is-far-too-long-for-the-small-screen-of-a-phone-and-has-no-space.gguf"
	s.name = long
	m := &fakeModel{pieces: texted("secret <b>answer</b>"), state: busyEngine()}
	s.SetModel(m)
	status, _ := servertest.Ask(t, "POST", url+"/completion", `{"prompt":"secret prompt"}`)
	require.Equal(t, http.StatusOK, status)
	m.generate = func(_ context.Context, _ engine.Request, emit func(engine.Piece) error) (engine.Report, error) {
		err := emit(engine.Piece{Text: "secret", Tokens: make([]engine.TokenLogprob, 4)})
		close(handedOut)
		<-ended
		return engine.Report{OutputTokens: 4, Stop: engine.StopEOS}, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		servertest.Ask(t, "POST", url+"/v1/completions", `{"prompt":"secret prompt"}`)
	}()
	t.Cleanup(func() { // without a browser, the test is skipped while the request runs
		end()
		<-done
	})
	<-handedOut
	_, raw := servertest.Ask(t, "GET", url+"/status.json", "")
	require.NotContains(t, raw, "secret")

	tab := browser.Tab(t)
	require.NoError(t, chromedp.Listen(tab, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page's script failed: %v", e.ExceptionDetails)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the page wrote to the console: %v", e.Type)
		case *devlog.EventEntryAdded:
			t.Errorf("the browser complained: %s", e.Entry.Text)
		}
	}))
	do := func(a chromedp.Action[chromedp.Void]) { require.NoError(t, chromedp.Do(tab, a)) }
	text := func(script string) string {
		answer, err := chromedp.Run(tab, chromedp.Evaluate[string](script))
		require.NoError(t, err)
		return answer
	}
	number := func(script string) float64 {
		answer, err := chromedp.Run(tab, chromedp.Evaluate[float64](script))
		require.NoError(t, err)
		return answer
	}
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1280} {
			do(chromedp.EmulateViewport(width, 800))
			do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
				_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				})
				return err
			}))
			do(chromedp.Navigate(url + "/"))
			require.Eventually(t, func() bool { return strings.HasSuffix(text(`document.getElementById("npu-now").textContent`), "%") }, 5*time.Minute, 50*time.Millisecond, "live values")
			where := fmt.Sprintf("%s, %d pixels", scheme, width)
			require.LessOrEqual(t, number(`document.documentElement.scrollWidth`), float64(width), "%s: the page is wider than the screen", where)
			require.Equal(t, long, text(`document.getElementById("model").textContent`))
			require.Equal(t, "3", text(`document.getElementById("loaded").textContent`))
			require.Equal(t, "0: both|1: decode|2: none", text(`[...document.querySelectorAll(".block")].map(b => b.textContent).join("|")`))
			require.Equal(t, "free", text(`document.querySelectorAll("#slots tr")[1].children[1].textContent`))
			require.Equal(t, "/v1/completions 4", text(`[1, 3].map(i => document.querySelector("#slots tr").children[i].textContent).join(" ")`))
			require.Equal(t, "/completion eos", text(`[1, 2].map(i => document.querySelector("#requests tr").children[i].textContent).join(" ")`))
			require.Contains(t, text(`document.getElementById("memory").textContent`), "300 MiB")
			grounds[scheme] = text(`getComputedStyle(document.body).backgroundColor`)
			if folder := os.Getenv("SDNPU_SCREENSHOTS"); folder != "" {
				picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%s-%d.png", folder, scheme, width), picture, 0o600))
			}
		}
	}
	require.NotEqual(t, grounds["light"], grounds["dark"])

	// Without a reload, the status page must show that the slot is free again.
	passes := text(`document.getElementById("passes").textContent`)
	end()
	<-done
	require.Eventually(t, func() bool { return text(`document.querySelector("#slots tr").children[1].textContent`) == "free" }, 5*time.Minute, 50*time.Millisecond)
	require.Equal(t, "/v1/completions", text(`document.querySelector("#requests tr").children[1].textContent`))
	require.NotEqual(t, passes, text(`document.getElementById("passes").textContent`))
}

func TestStatusPageNeedsNoKeyAndHoldsNoData(t *testing.T) {
	key, _, err := accessOf("-m x --api-key secret")
	require.NoError(t, err)
	s, err := New(Options{Addr: "127.0.0.1:0", Name: "private-model", Access: key})
	require.NoError(t, err)
	defer s.Close()
	s.SetModel(&fakeModel{})
	get := func(path, key string) (int, http.Header, string) {
		answer := record(s, "GET", path, key)
		return answer.Code, answer.Header(), answer.Body.String()
	}
	status, header, page := get("/", "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, page, "private-model")
	policy := header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	_, again, _ := get("/", "")
	require.NotEqual(t, policy, again.Get("Content-Security-Policy"), "each page has a nonce of its own")
	require.NotContains(t, page, "http://")
	require.NotContains(t, page, "https://")

	status, _, _ = get("/status.json", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _, raw := get("/status.json", "secret")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, raw, "private-model")

	s.SetModel(nil)
	_, _, raw = get("/status.json", "secret")
	var a struct{ State string }
	require.NoError(t, json.Unmarshal([]byte(raw), &a))
	require.Equal(t, "loading", a.State)

	hidden, err := New(Options{Addr: "127.0.0.1:0", HidePage: true})
	require.NoError(t, err)
	defer hidden.Close()
	for _, path := range []string{"/", "/status.json"} {
		require.Equal(t, http.StatusNotFound, record(hidden, "GET", path, "").Code)
	}
}
