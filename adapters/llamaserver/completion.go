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

// writePatience is how long a client may leave an event unread before its
// generation is given up: others share the device.
const writePatience = time.Minute

// completion answers /completion.
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
		panic(http.ErrAbortHandler) // nobody listens
	case out.began:
		// The dialect has no event for a failure. The host joins this line
		// to its own message when it sees the connection break.
		s.lines.Failure(err)
		panic(http.ErrAbortHandler)
	default:
		return refusalFor(err)
	}
}

// refusalFor finds the status of a generation that failed before its first
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

// outcome is the word for the end of a request in its report.
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

// errGone is what a generation is told whose client no longer reads.
var errGone = errors.New("the client has gone")

// stream writes pieces as server-sent events, or keeps them for one answer.
// The header goes out with the first event, so that a failure before it still
// has a status.
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

// finish sends what is held and the final event.
func (s *stream) finish(r engine.Report) error {
	final := finalEvent(r)
	if s.whole {
		final.Content = s.text.String()
		if s.probs {
			final.Probabilities = probabilities(s.tokens)
		}
		// Whoever does not read it must not keep the slot.
		_ = s.control.SetWriteDeadline(time.Now().Add(writePatience))
		writeJSON(s.w, http.StatusOK, final)
		return nil
	}
	if p, ok := s.merger.rest(); ok {
		if p.Text == "" {
			// Tokens without text: an empty event would count as a repeat.
			final.Probabilities = probabilities(p.Tokens)
		} else if err := s.send(pieceEvent(p, s.probs)); err != nil {
			return err
		}
	}
	return s.send(final)
}

// send writes one event with one write and lets it go out at once.
func (s *stream) send(e event) error {
	var line bytes.Buffer
	line.WriteString("data: ")
	encoder := json.NewEncoder(&line) // ends the line
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
	// Not every writer has deadlines; without one the client is waited for.
	_ = s.control.SetWriteDeadline(time.Now().Add(writePatience))
	if _, err := s.w.Write(line.Bytes()); err != nil {
		return errors.Join(errGone, err)
	}
	if err := s.control.Flush(); err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}
