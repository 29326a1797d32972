package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Server is a running `ollama serve`.
type Server struct {
	// URL is where it answers, "http://127.0.0.1:12345".
	URL string
	// Executable is the private ollama.
	Executable string
	env        []string
	cmd        *exec.Cmd
	log        *os.File
	done       chan error
}

// Start serves with the given private executable. Models and log lie in dir;
// env is added to the environment. It returns when the server answers.
func Start(ctx context.Context, executable, dir string, env ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "ollama.log"))
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + address, Executable: executable, log: log, done: make(chan error, 1)}
	s.env = append(os.Environ(), "OLLAMA_HOST="+address, "OLLAMA_MODELS="+filepath.Join(dir, "models"), "HOME="+dir, "OLLAMA_NO_CLOUD=1", "OLLAMA_DEBUG=0")
	s.env = append(s.env, env...)
	s.cmd = exec.Command(executable, "serve")
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, log, log
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("host: start %s: %w", executable, err), log.Close())
	}
	go func() { s.done <- s.cmd.Wait() }()
	if err := s.wait(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// wait polls until the server answers; it gives up after a minute.
func (s *Server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/version", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			return resp.Body.Close()
		}
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("host: ollama serve ended: %w\n%s", err, s.Log())
		case <-ctx.Done():
			return fmt.Errorf("host: ollama serve does not answer: %w\n%s", ctx.Err(), s.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Log returns what server and runners have printed so far.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Create makes a model from a Modelfile.
func (s *Server) Create(ctx context.Context, name, modelfile string) error {
	file := filepath.Join(filepath.Dir(s.log.Name()), "Modelfile."+name)
	if err := os.WriteFile(file, []byte(modelfile), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.Executable, "create", name, "-f", file)
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("host: ollama create %s: %w\n%s\n%s", name, err, out, s.Log())
	}
	return nil
}

// Event is one line of a streamed answer of /api/generate or /api/chat.
type Event struct {
	Response string
	Message  struct{ Content string }
	Done     bool
	Error    string
	// Set in the last line.
	DoneReason         string `json:"done_reason"`
	Context            []int
	PromptEvalCount    int   `json:"prompt_eval_count"`
	PromptEvalDuration int64 `json:"prompt_eval_duration"`
	EvalCount          int   `json:"eval_count"`
	EvalDuration       int64 `json:"eval_duration"`
	LoadDuration       int64 `json:"load_duration"`
}

// Text is the event's piece of the answer.
func (e Event) Text() string { return e.Response + e.Message.Content }

// Stream posts a request to an endpoint and gives each line of the answer to
// each. It returns the last line.
func (s *Server) Stream(ctx context.Context, endpoint string, request map[string]any, each func(Event)) (Event, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return Event{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+endpoint, bytes.NewReader(body))
	if err != nil {
		return Event{}, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return Event{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what came is what can be said
		return Event{}, fmt.Errorf("host: %s: %s: %s", endpoint, resp.Status, strings.TrimSpace(string(text)))
	}
	var last Event
	for d := json.NewDecoder(resp.Body); ; {
		var e Event
		if err := d.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return last, err
		}
		if e.Error != "" {
			return e, fmt.Errorf("host: %s: %s", endpoint, e.Error)
		}
		if last = e; each != nil {
			each(e)
		}
	}
	if !last.Done {
		return last, fmt.Errorf("host: %s: the answer ended without its last line", endpoint)
	}
	return last, nil
}

// Close ends the server and waits for it; Ollama ends its runners.
func (s *Server) Close() error {
	err := s.cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		err = errors.Join(err, s.cmd.Process.Kill())
		<-s.done
	}
	return errors.Join(err, s.log.Close())
}
