package llamaserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"syscall"
)

var (
	// ErrArguments is returned when a command line cannot be understood.
	ErrArguments = errors.New("bad arguments")
	// ErrClosed is returned by Serve when it is called a second time.
	ErrClosed = errors.New("server already served")
)

// refusal is an answer given instead of a result. Its body is a plain
// sentence, since the host shows the raw body to people.
type refusal struct {
	status   int
	sentence string
	body     any // sent as JSON in place of the sentence when set
}

func (r *refusal) Error() string { return r.sentence }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, sentence: fmt.Sprintf(format, args...)}
}

// tooLong has llama-server's form, whose type clients look for. count is the
// number of tokens in words.
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
	if r.body != nil {
		writeJSON(w, r.status, r.body)
		return
	}
	http.Error(w, r.sentence, r.status)
}

// writeJSON sends a whole JSON answer. A failed write means that the client
// has gone, which its own side knows.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// listenError says what is wrong with an address, and what to do. The host
// chooses free ports; people who start the program by hand do not.
func listenError(addr string, err error) error {
	host, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, windowsInUse):
		return fmt.Errorf("port %s of %s is in use: end the program that listens there, or give another port with --port (0 takes a free one): %w", port, host, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("port %s of %s is not for this user: give one above 1023 with --port: %w", port, host, err)
	}
	return fmt.Errorf("cannot listen on %s: give an address of this machine with --host: %w", addr, err)
}

// windowsInUse is WSAEADDRINUSE, which Windows does not call EADDRINUSE.
const windowsInUse = syscall.Errno(10048)
