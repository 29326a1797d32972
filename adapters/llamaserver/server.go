package llamaserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
)

const (
	// maxBody bounds a request: a prompt for a context of a million tokens has
	// about four megabytes, as text or as token numbers.
	maxBody = 16 << 20
	// readPatience is how long a client may take to send a body: a connection
	// that stops half way must not be kept for ever.
	readPatience = 30 * time.Second
)

// Model answers the requests. Its methods are called from many goroutines.
type Model interface {
	// Generate runs one request and hands over its text piece by piece. It
	// ends soon after ctx is done or emit fails, and returns that error.
	Generate(ctx context.Context, r engine.Request, emit func(engine.Piece) error) (engine.Report, error)
	// Encode tokenizes text; addSpecial adds what the model wants at the
	// start, parseSpecial recognises control tokens written out.
	Encode(text string, addSpecial, parseSpecial bool) ([]int32, error)
	// Decode is the text of ids, control tokens included.
	Decode(ids []int32) string
	// Limits are those of the requests; they do not change.
	Limits() Limits
}

// Limits bound what a Model can be asked.
type Limits struct {
	// Context is how many tokens one request may have in all.
	Context int
	// Vocab is one more than the highest token.
	Vocab int
	// LongestPiece is how many bytes of text one token stands for at most. Zero
	// leaves it open.
	LongestPiece int
}

// Options tunes a Server.
type Options struct {
	// Addr is where to listen, "127.0.0.1:8080". Port zero takes a free one.
	Addr string
	// Slots is how many generations run at once; further ones wait. Zero
	// means one.
	Slots int
	// ContextShift lets a full context drop the older half of its text and go
	// on, but for the first Keep tokens of a request that does not say how many;
	// -1 keeps the whole prompt.
	ContextShift bool
	Keep         int
	// Lines receives reports and failures. Nil means silence.
	Lines *Lines
	// Logger receives warnings. Nil means silence.
	Logger *slog.Logger
}

// Server answers the host. It exists and listens before its model does.
type Server struct {
	listener net.Listener
	http     *http.Server
	slots    chan struct{}
	shift    bool
	keep     int
	lines    *Lines
	state    atomic.Pointer[state]
	serving  atomic.Bool
	running  sync.RWMutex // read-held by handlers with a model: Serve outlives them
}

// state is loading when both fields are nil.
type state struct {
	model  Model
	failed error
}

// New listens at once: the host polls from the first moment, and a refused
// connection costs it a quarter of a second.
func New(o Options) (*Server, error) {
	if o.Slots < 0 {
		return nil, fmt.Errorf("llamaserver: %w: %d slots", ErrArguments, o.Slots)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("llamaserver: %w", listenError(o.Addr, err))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lines == nil {
		o.Lines = NewLines(io.Discard)
	}
	s := &Server{listener: listener, slots: make(chan struct{}, max(o.Slots, 1)), shift: o.ContextShift, keep: o.Keep, lines: o.Lines}
	s.state.Store(&state{})
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// SetModel ends the loading; nil begins it again.
func (s *Server) SetModel(m Model) {
	if m != nil {
		m = &frugal{m, make(chan struct{}, 1)}
	}
	s.state.Store(&state{model: m})
}

// frugal tokenizes one large text at a time: each takes about eighty times its
// size in memory and a second for a megabyte, and any number of requests come
// beside those that hold a slot.
type frugal struct {
	Model
	large chan struct{}
}

// largeText is where a text begins to be large, in bytes.
const largeText = 1 << 20

// Encode is the model's.
func (f *frugal) Encode(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	if len(text) >= largeText {
		f.large <- struct{}{}
		defer func() { <-f.large }()
	}
	return f.Model.Encode(text, addSpecial, parseSpecial)
}

// SetFailed makes /health and every request tell that there is no model.
func (s *Server) SetFailed(err error) { s.state.Store(&state{failed: err}) }

// Serve answers requests until ctx is done; running generations are then
// cancelled, their connections broken and their ends waited for. It can be
// called once.
func (s *Server) Serve(ctx context.Context) error {
	if s.serving.Swap(true) {
		return fmt.Errorf("llamaserver: %w", ErrClosed)
	}
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	err := s.http.Serve(s.listener)
	s.running.Lock()
	defer s.running.Unlock()
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("llamaserver: %w", err)
}

// Close frees the port of a server that is not serving.
func (s *Server) Close() error { return s.http.Close() }

// Handler is the server without its port.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /v1/health", s.health)
	mux.HandleFunc("POST /completion", s.withModel(s.completion))
	mux.HandleFunc("POST /tokenize", s.withModel(s.tokenize))
	mux.HandleFunc("POST /detokenize", s.withModel(s.detokenize))
	native := refuse(http.StatusNotImplemented, "sdnpu does not apply the chat template in the model file yet. "+
		"Give the model a TEMPLATE in its Modelfile and create it again; then Ollama renders the prompts.")
	mux.HandleFunc("POST /v1/chat/completions", s.withModel(native.always))
	mux.HandleFunc("POST /apply-template", s.withModel(native.always))
	embeddings := refuse(http.StatusNotImplemented, "sdnpu does not compute embeddings yet. "+
		"Use a model that is not selected for the NPU.")
	mux.HandleFunc("POST /v1/embeddings", s.withModel(embeddings.always))
	return mux
}

func (r *refusal) always(http.ResponseWriter, *http.Request, Model) error { return r }

// health touches nothing that a load or a generation could hold.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	switch st := s.state.Load(); {
	case st.failed != nil:
		writeJSON(w, http.StatusInternalServerError, map[string]string{"status": "failed", "reason": st.failed.Error()})
	case st.model == nil:
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "loading model"})
	default:
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}
}

// withModel gives the handler the model and turns its error into an answer.
// A handler returns an error only while it has written nothing.
func (s *Server) withModel(handle func(http.ResponseWriter, *http.Request, Model) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.running.RLock()
		defer s.running.RUnlock()
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		err := error(nil)
		switch st := s.state.Load(); {
		case st.failed != nil:
			err = refuse(http.StatusServiceUnavailable, "the model could not be loaded: %v", st.failed)
		case st.model == nil:
			err = refuse(http.StatusServiceUnavailable, "the model is still loading")
		default:
			err = handle(w, r, st.model)
		}
		if err == nil {
			return
		}
		answer := refuse(http.StatusInternalServerError, "%v", err)
		errors.As(err, &answer)
		answer.write(w)
	}
}

// readJSON reads a bounded body into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	control := http.NewResponseController(w)
	// Not every connection has deadlines; without one the client is waited for.
	_ = control.SetReadDeadline(time.Now().Add(readPatience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	// What is read from now on only tells that the client has gone.
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "the request did not come to its end within %v", readPatience)
	case err != nil:
		return refuse(http.StatusBadRequest, "the request ended early")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return notJSON(err)
	}
	return nil
}
