package enable_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

// fake is an HTTP server that acts as Ollama and stores a map of models and a folder of
// blobs. A fake can stop answering after any number of requests.
type fake struct {
	t        *testing.T
	url      *url.URL
	journal  string
	dir      string
	mu       sync.Mutex
	models   map[string]fakeModel // mu guards models and all fields below it
	requests int
	limit    int  // limit is the number of requests that are answered; 0 means all
	act      bool // act is set if the first request over the limit is carried out
	asked    []string
	refusal  int // refusal is the error status with which chats are answered, or 0
}

type fakeModel struct {
	weights, adapter     string // weights and adapter are the digests of the model's layers, or empty if the model has no such layer
	parameters           string
	remote, capabilities string
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, dir: t.TempDir(), journal: t.TempDir(), models: map[string]fakeModel{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	var err error
	f.url, err = url.Parse(s.URL)
	require.NoError(t, err)
	f.models["base:1b"] = fakeModel{weights: f.store(keys(t, "llama"))}
	return f
}

// keys returns a GGUF with an architecture and other keys.
func keys(t *testing.T, architecture string, more ...gguf.KeyValue) []byte {
	var b bytes.Buffer
	require.NoError(t, gguf.Write(&b, append([]gguf.KeyValue{{Name: "general.architecture", Value: architecture}}, more...), nil))
	return b.Bytes()
}

// selecting returns an adapter that selects the NPU.
func selecting(t *testing.T, more ...gguf.KeyValue) []byte {
	return keys(t, "llama", append([]gguf.KeyValue{{Name: "sdnpu.enabled", Value: true}}, more...)...)
}

func (f *fake) ollama() enable.Ollama {
	return enable.Ollama{URL: f.url, Journal: f.journal, RunnerKnown: true}
}

// request asks for a variant of base:1b.
func (f *fake) request(content []byte) enable.Request {
	return enable.Request{Model: "base:1b", Adapter: func(string) ([]byte, error) { return content, nil }}
}

func (f *fake) path(digest string) string {
	return filepath.Join(f.dir, strings.ReplaceAll(digest, ":", "-"))
}

func (f *fake) store(content []byte) string {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	require.NoError(f.t, os.WriteFile(f.path(digest), content, 0o600))
	return digest
}

// state describes the store: the models with their layers, and the blobs.
func (f *fake) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir(f.dir)
	require.NoError(f.t, err)
	var blobs []string
	for _, e := range entries {
		blobs = append(blobs, e.Name())
	}
	return fmt.Sprint(f.models, blobs)
}

func (f *fake) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.models[name]
	return ok
}

// heal makes the server answer all requests again.
func (f *fake) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit, f.requests = 0, 0
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.limit > 0 && f.requests > f.limit {
		if f.act && f.requests == f.limit+1 {
			f.answer(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler) // closes the connection
	}
	f.answer(w, r)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var q struct {
		Model, From string
		Adapters    map[string]string
	}
	_ = json.Unmarshal(body, &q) // the error is ignored, because a blob is no JSON
	if digest, ok := strings.CutPrefix(r.URL.Path, "/api/blobs/"); ok {
		f.blob(w, r.Method, digest, body)
		return
	}
	// the error is ignored, because the client may have closed the connection
	say := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	m, known := f.models[q.Model]
	switch r.URL.Path {
	case "/api/tags":
		list := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(f.models)) {
			list = append(list, map[string]any{"name": name})
		}
		say(map[string]any{"models": list})
	case "/api/create":
		base := f.models[q.From]
		f.models[q.Model] = fakeModel{weights: base.weights, adapter: q.Adapters["npu.gguf"], parameters: base.parameters}
		f.prune(m) // Ollama removes the blobs that only the replaced model used
		say(map[string]any{"status": "writing manifest"})
		say(map[string]any{"status": "success"})
	case "/api/show", "/api/chat", "/api/delete", "/api/generate":
		if !known {
			w.WriteHeader(http.StatusNotFound)
			say(map[string]any{"error": "not found"})
			return
		}
		f.known(w, r.URL.Path, q.Model, m, say)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (f *fake) known(w http.ResponseWriter, path, name string, m fakeModel, say func(any)) {
	switch path {
	case "/api/show":
		file := "# Modelfile\n\nFROM " + f.path(m.weights) + "\n"
		if m.weights == "" {
			file = "# Modelfile\n"
		}
		if m.adapter != "" {
			file += "ADAPTER " + f.path(m.adapter) + "\n"
		}
		file += "TEMPLATE \"\"\"{{ .Prompt }}\nADAPTER /not/an/adapter\n\"\"\"\n" + m.parameters
		capability := m.capabilities
		if capability == "" {
			capability = "completion"
		}
		say(map[string]any{"modelfile": file, "remote_host": m.remote, "capabilities": []string{capability}})
	case "/api/delete":
		delete(f.models, name)
		f.prune(m)
	case "/api/chat":
		if f.refusal != 0 {
			w.WriteHeader(f.refusal)
			say(map[string]any{"error": "no"})
			return
		}
		f.asked = append(f.asked, name)
		say(map[string]any{"message": map[string]any{"content": "a"}, "done": true})
	case "/api/generate":
		say(map[string]any{"done": true})
	}
}

// prune removes the blobs of a removed model that no other model uses.
func (f *fake) prune(removed fakeModel) {
	for _, digest := range []string{removed.weights, removed.adapter} {
		used := slices.ContainsFunc(slices.Collect(maps.Values(f.models)), func(m fakeModel) bool { return m.weights == digest || m.adapter == digest })
		if digest != "" && !used {
			_ = os.Remove(f.path(digest)) // ignore the error, because the file of the blob may be missing
		}
	}
}

func (f *fake) blob(w http.ResponseWriter, method, digest string, content []byte) {
	if method == http.MethodPost {
		if f.store(content) != digest {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		return
	}
	if _, err := os.Stat(f.path(digest)); err != nil {
		w.WriteHeader(http.StatusNotFound)
	}
}
