package llamaserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

var (
	// ErrArguments is returned for an invalid command line.
	ErrArguments = errors.New("bad arguments")
	// ErrClosed is returned if the server's Serve is called a second time.
	ErrClosed = errors.New("server already served")
)

// refusal is an HTTP answer without a result. refusal's body is a plain sentence,
// because Ollama shows the raw body to its user.
type refusal struct {
	status   int
	sentence string
	body     any  // body, if set, is sent as JSON instead of the sentence
	retry    bool // retry is set if the same request may be answered later
}

func (r *refusal) Error() string { return r.sentence }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, sentence: fmt.Sprintf(format, args...)}
}

// tooLong returns the answer to a prompt that is too long, in llama-server's form:
// clients check its type. count is the number of tokens as text.
func tooLong(count string, tokens, context int) *refusal {
	r := refuse(http.StatusBadRequest,
		"the prompt has %s tokens and exceeds the available context of %d tokens", count, context)
	r.body = map[string]any{"error": map[string]any{
		"code":            r.status,
		"message":         r.sentence,
		"type":            "exceed_context_size_error",
		"n_prompt_tokens": tokens,
		"n_ctx":           context,
	}}
	return r
}

func (r *refusal) write(w http.ResponseWriter) {
	if r.retry {
		w.Header().Set("Retry-After", "1")
	}
	if r.body != nil {
		writeJSON(w, r.status, r.body)
		return
	}
	limitWrite(w)
	http.Error(w, r.sentence, r.status)
}

// limitWrite limits the time that the client has to read the next write.
func limitWrite(w http.ResponseWriter) {
	// Ignore the error of a writer that has no deadlines: without a deadline, a write
	// waits for the client.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// writeJSON sends an answer in JSON. writeJSON ignores a failed write: the
// client has closed the connection.
func writeJSON(w http.ResponseWriter, status int, v any) {
	limitWrite(w)
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// listenError explains why the server cannot listen on an address. Ollama chooses a
// free port, but a person who starts the program may not.
func listenError(addr string, err error) error {
	host, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, windowsInUse):
		return fmt.Errorf("port %s of %s is in use: stop the program that uses it, or choose another port with --port (0 selects a free one): %w", port, host, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("port %s of %s needs more rights: choose one above 1023 with --port: %w", port, host, err)
	}
	return fmt.Errorf("cannot listen on %s: choose an address of this machine with --host: %w", addr, err)
}

// windowsInUse is WSAEADDRINUSE, the value of EADDRINUSE on Windows.
const windowsInUse = syscall.Errno(10048)
