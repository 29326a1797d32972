package llamaserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// writeTimeout is the time that a client has to read an event. After it, the
// generation is cancelled, because other requests wait for the device.
const writeTimeout = time.Minute

// completion handles /completion.
func (s *Server) completion(w http.ResponseWriter, r *http.Request, m Model) error {
	body := defaults()
	body.NKeep = s.keep
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	request, err := body.engineRequest(m)
	if err != nil {
		return err
	}
	request.Shift = s.shift
	ctx := r.Context()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
	out := &stream{w: w, control: http.NewResponseController(w), probs: request.Logprobs > 0, whole: !body.Stream}
	report, err := m.Generate(ctx, request, out.piece)
	s.lines.Report(report, outcome(ctx, report, err))
	if err == nil {
		err = out.finish(report)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || errors.Is(err, errGone):
		panic(http.ErrAbortHandler) // the client has closed the connection
	case out.began:
		// The protocol has no event for a failure. When the connection breaks, the
		// host adds this line to its own message.
		s.lines.Failure(err)
		panic(http.ErrAbortHandler)
	default:
		return refusalFor(err)
	}
}

// refusalFor returns the answer to a generation that failed before its first
// event.
func refusalFor(err error) error {
	var long *engine.PromptTooLongError
	switch {
	case errors.As(err, &long):
		return tooLong(fmt.Sprint(long.Tokens), long.Tokens, long.Context)
	case errors.Is(err, sampler.ErrOptions), errors.Is(err, engine.ErrRequest):
		return refuse(http.StatusBadRequest, "%v", err)
	}
	return err
}

// outcome returns the word for the end of a request in its report.
func outcome(ctx context.Context, r engine.Report, err error) string {
	switch {
	case err == nil:
		return string(r.Stop)
	case ctx.Err() != nil || errors.Is(err, errGone):
		return "cancelled"
	default:
		return "failed"
	}
}

// errGone ends a generation whose client no longer reads.
var errGone = errors.New("the client has closed the connection")

// stream writes pieces as server-sent events, or collects them for one answer.
// It writes the header with the first event, so that an earlier failure can still
// set the status.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	merger  merger
	probs   bool
	whole   bool
	began   bool

	text   strings.Builder // when whole
	tokens []engine.TokenLogprob
}

func (s *stream) piece(p engine.Piece) error {
	if s.whole {
		s.text.WriteString(p.Text)
		s.tokens = append(s.tokens, p.Tokens...)
		return nil
	}
	if p, ok := s.merger.add(p); ok {
		return s.send(pieceEvent(p, s.probs))
	}
	return nil
}

// finish sends the held pieces and the final event.
func (s *stream) finish(r engine.Report) error {
	final := finalEvent(r)
	if s.whole {
		final.Content = s.text.String()
		if s.probs {
			final.Probabilities = probabilities(s.tokens)
		}
		// A client that does not read must not keep its slot.
		_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
		writeJSON(s.w, http.StatusOK, final)
		return nil
	}
	if p, ok := s.merger.rest(); ok {
		if p.Text == "" {
			// The tokens have no text, and an empty event would count as a repetition.
			final.Probabilities = probabilities(p.Tokens)
		} else if err := s.send(pieceEvent(p, s.probs)); err != nil {
			return err
		}
	}
	return s.send(final)
}

// send writes one event with one write and flushes it.
func (s *stream) send(e event) error {
	var line bytes.Buffer
	line.WriteString("data: ")
	encoder := json.NewEncoder(&line) // adds a newline
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return err
	}
	line.WriteByte('\n')
	if !s.began {
		s.began = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	// Ignore the error of a writer that has no deadlines: its writes wait for the client.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(line.Bytes()); err != nil {
		return errors.Join(errGone, err)
	}
	if err := s.control.Flush(); err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}

// tokenize handles /tokenize. By default it recognises control tokens in the text
// and adds no BOS.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, m Model) error {
	body := struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
	}{ParseSpecial: true}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	ids, err := encode(m, body.Content, body.AddSpecial, body.ParseSpecial)
	if err != nil {
		return err
	}
	if ids == nil {
		ids = []int32{} // the host expects a list, not null
	}
	writeJSON(w, http.StatusOK, map[string][]int32{"tokens": ids})
	return nil
}

// detokenize handles /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request, m Model) error {
	var body struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if err := checkTokens(body.Tokens, m); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"content": m.Decode(body.Tokens)})
	return nil
}
