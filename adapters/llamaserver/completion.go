package llamaserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// completion handles /completion.
func (s *Server) completion(w http.ResponseWriter, r *http.Request, m Model) error {
	request, streamed, err := s.readCompletion(w, r, m)
	if err != nil {
		return err
	}
	ctx := r.Context()
	release, err := s.takeSlot(ctx)
	if err != nil {
		return err
	}
	defer release()
	out := &stream{
		w: w, control: http.NewResponseController(w), patience: stallTimeout, probs: request.Logprobs > 0,
		whole: !streamed, total: &s.answers,
	}
	defer out.close()
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
		// The protocol has no event for a failure after the first event, so the
		// connection is closed. When the connection breaks, the host adds the line that
		// Failure prints to its own message.
		s.lines.Failure(err)
		panic(http.ErrAbortHandler)
	default:
		return refusalFor(err)
	}
}

// readCompletion reads the HTTP request for a completion. The result of readCompletion
// keeps no part of the request body in memory.
func (s *Server) readCompletion(w http.ResponseWriter, r *http.Request, m Model) (request engine.Request, streamed bool, err error) {
	body := defaults()
	body.NKeep, body.Prompt.limit = s.keep, m.Limits().Context
	err = s.intake.request(w, r, m.Limits().completionBody(), &body, func(ctx context.Context) (answer func() error, err error) {
		if request, err = body.engineRequest(ctx, m); err == nil {
			request.Grammar, err = s.grammars.of(&body)
		}
		return nil, err
	})
	request.Shift = s.shift
	return request, body.Stream, err
}

// takeSlot waits for a free request slot. takeSlot rejects a request if too many
// requests wait already.
func (s *Server) takeSlot(ctx context.Context) (release func(), err error) {
	most := int64((queuePerSlot + 1) * cap(s.slots))
	if s.waiting.Add(1) > most {
		s.waiting.Add(-1)
		return nil, busy("no slot available: %d requests run or wait already. Ask again later.", most)
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; s.waiting.Add(-1) }, nil
	case <-ctx.Done():
		s.waiting.Add(-1)
		panic(http.ErrAbortHandler) // the client has closed the connection
	}
}

// refusalFor returns the HTTP answer to a generation that failed before its first
// event.
func refusalFor(err error) error {
	var long *engine.PromptTooLongError
	var reason *refusal
	switch {
	case errors.As(err, &reason):
		return reason
	case errors.As(err, &long):
		return tooLong(fmt.Sprint(long.Tokens), long.Tokens, long.Context)
	case errors.Is(err, sampler.ErrOptions), errors.Is(err, engine.ErrRequest):
		return refuse(http.StatusBadRequest, "%v", err)
	}
	return err
}

// outcome returns the word by which the log line of a request describes its end.
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
// stream writes the header with the first event, so that an earlier failure can
// still set the status.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// patience is the time for which the client may still delay the answer by reading
	// slowly.
	patience time.Duration
	merger   merger
	probs    bool
	whole    bool
	began    bool

	// A whole answer, which is not streamed, counts its bytes in size, and in total
	// together with the answers of other requests.
	text   strings.Builder
	tokens []engine.TokenLogprob
	size   int64
	total  *atomic.Int64
}

// close ends the counting of an answer's bytes.
func (s *stream) close() { s.total.Add(-s.size) }

// grow counts the bytes of an answer that is not streamed.
func (s *stream) grow(bytes int) error {
	s.size += int64(bytes)
	total := s.total.Add(int64(bytes))
	switch {
	case s.size > maxAnswer:
		return refuse(http.StatusBadRequest, "the answer has more than %d bytes: ask for a stream, fewer tokens (n_predict) or fewer alternatives (n_probs)", maxAnswer)
	case total > answerBudget:
		return busy("no slot available: the answers of all requests have more than %d bytes. Ask again later, or for a stream.", answerBudget)
	}
	return nil
}

func (s *stream) piece(p engine.Piece) error {
	if s.whole {
		s.text.WriteString(p.Text)
		s.tokens = append(s.tokens, p.Tokens...)
		return s.grow(len(p.Text) + cost(p.Tokens))
	}
	if p, ok := s.merger.add(p); ok {
		return s.send(pieceEvent(p, s.probs))
	}
	return nil
}

// finish sends the pieces of text that were held back, and the final event.
func (s *stream) finish(r engine.Report) error {
	final := finalEvent(r)
	if s.whole {
		final.Content = s.text.String()
		if s.probs {
			final.Probabilities = probabilities(s.tokens)
		}
		writeJSON(s.w, http.StatusOK, final)
		return nil
	}
	if p, ok := s.merger.rest(); ok {
		if p.Text == "" {
			// Tokens without text send no event, because the host counts an empty event
			// as a repetition.
			final.Probabilities = probabilities(p.Tokens)
		} else if err := s.send(pieceEvent(p, s.probs)); err != nil {
			return err
		}
	}
	return s.send(final)
}

// send writes one server-sent event with one write and flushes it.
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
	if s.patience <= 0 {
		return errGone
	}
	began := time.Now()
	// Ignore the error of a writer that has no deadlines: without a deadline, a write
	// waits for the client.
	_ = s.control.SetWriteDeadline(began.Add(min(writeTimeout, s.patience)))
	if _, err := s.w.Write(line.Bytes()); err != nil {
		return errors.Join(errGone, err)
	}
	if err := s.control.Flush(); err != nil {
		return errors.Join(errGone, err)
	}
	s.patience -= time.Since(began)
	return nil
}
