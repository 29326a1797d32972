package llamaserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/responses"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// form is the form in which an endpoint answers a generation.
type form interface {
	// piece returns the event of a part of the answer.
	piece(p engine.Piece) any
	// end returns the last events of a stream. rest holds the last tokens of the answer
	// that add no text.
	end(rest []engine.TokenLogprob, r engine.Report) []any
	// whole returns the answer to a request that asks for no stream.
	whole(text string, tokens []engine.TokenLogprob, r engine.Report) any
	// failure returns the event of a failure in the middle of a stream, or nil if the
	// form has none.
	failure(r *refusal) any
}

// mark is an event whose text is sent unchanged and not as JSON.
type mark string

// doneMark is the event that ends the streams of OpenAI's API.
const doneMark = mark("[DONE]")

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
	form     form
	probs    bool // probs is set if a chat's client asked for log-probabilities
	whole    bool
	began    bool

	// If the answer is not streamed, text and tokens collect it, and size counts its
	// bytes. total counts the bytes of all answers that are not streamed.
	text   strings.Builder
	tokens []engine.TokenLogprob
	size   int64
	total  *atomic.Int64
}

// The method close subtracts the bytes of a finished answer from the sum of all answers
// that are not streamed.
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
		return s.send(s.form.piece(p))
	}
	return nil
}

// finish sends the pieces of text that were held back, and the final event.
func (s *stream) finish(r engine.Report) error {
	if s.whole {
		answer := s.form.whole(s.text.String(), s.tokens, r)
		writeJSON(s.w, http.StatusOK, answer)
		return nil
	}
	var rest []engine.TokenLogprob
	if p, ok := s.merger.rest(); ok {
		if p.Text == "" {
			// Tokens without text send no event, because the host counts an empty event
			// as a repetition.
			rest = p.Tokens
		} else if err := s.send(s.form.piece(p)); err != nil {
			return err
		}
	}
	for _, e := range s.form.end(rest, r) {
		if err := s.send(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) started() bool { return s.began }

// fail sends the event for a failure in the middle of a stream, if the form has one, and
// aborts the connection. The host has no event for a failure after the first event.
func (s *stream) fail(err error) {
	reason := refuse(http.StatusInternalServerError, "%v", err)
	errors.As(refusalFor(err), &reason)
	if e := s.form.failure(reason); e != nil {
		// Ignore a failed write, because fail aborts the connection anyway
		_ = s.send(e)
	}
	panic(http.ErrAbortHandler)
}

// several holds events of a stream, to be sent in their order.
type several []any

// send writes one server-sent event.
func (s *stream) send(e any) error {
	if list, ok := e.(several); ok {
		for _, one := range list {
			if err := s.send(one); err != nil {
				return err
			}
		}
		return nil
	}
	var line bytes.Buffer
	if n, ok := e.(responses.Event); ok {
		line.WriteString("event: " + n.Name + "\n")
		e = n.Data
	}
	line.WriteString("data: ")
	if e == doneMark {
		line.WriteString("[DONE]\n")
	} else {
		encoder := json.NewEncoder(&line) // Encode adds a newline to the event
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	line.WriteByte('\n')
	return s.sendLine(line.Bytes())
}

// sendLine sends an event that is already encoded, with one write, and flushes it.
func (s *stream) sendLine(line []byte) error {
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
	if _, err := s.w.Write(line); err != nil {
		return errors.Join(errGone, err)
	}
	if err := s.control.Flush(); err != nil {
		return errors.Join(errGone, err)
	}
	s.patience -= time.Since(began)
	return nil
}
