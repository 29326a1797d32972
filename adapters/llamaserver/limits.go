package llamaserver

import (
	"net/http"
	"time"
)

// Limits of one request. docs/security.md lists all limits with their status codes.
const (
	// maxBody is the largest body of any request.
	maxBody = 16 << 20
	// maxStops and maxStop limit the stop strings: their number and the bytes of each.
	maxStops, maxStop = 64, 4 << 10
	// maxPreserved is the largest number of preserved tokens, and maxPreservedText the
	// bytes of each.
	maxPreserved, maxPreservedText = 1024, 4 << 10
	// maxProbs is the largest number of alternatives to each token. Clients of Ollama
	// can ask for 20.
	maxProbs = 100
	// answerContexts limits an answer to this many contexts, as Ollama does.
	answerContexts = 10
	// maxAnswer is the largest answer in bytes that is not streamed.
	maxAnswer = 8 << 20
)

// Limits of time.
const (
	// readTimeout is the time that a client has to send a body.
	readTimeout = 30 * time.Second
	// headerTimeout is the time that a client has to send a request's header.
	headerTimeout = 10 * time.Second
	// idleTimeout is the time that a connection may stay open without a request.
	// idleTimeout also ends requests whose body no handler reads.
	idleTimeout = time.Minute
	// writeTimeout is the time that a client has to read one event.
	writeTimeout = time.Minute
	// stallTimeout is the time that a client may keep one answer waiting in total. After
	// stallTimeout, the generation is cancelled, because other requests wait for the
	// device.
	stallTimeout = 2 * time.Minute
	// budgetTimeout is the time that a request waits for the memory or the processor
	// that others use.
	budgetTimeout = 30 * time.Second
)

// Limits of all requests together.
const (
	// bodyBudget bounds the memory of large requests until they have a prompt, in
	// bytes. A request takes bodyCost times its body.
	bodyBudget, bodyCost = 64 << 20, 4
	// smallBody is the largest body that takes nothing of bodyBudget. The
	// number of connections bounds the sum of small bodies. One large body is decoded and
	// tokenized at the same time as small bodies.
	smallBody = 16 << 10
	// answerBudget is the sum of answers that are not streamed.
	answerBudget = 32 << 20
	// queuePerSlot is the number of requests that may wait for each slot.
	queuePerSlot = 16
	// maxHeader is the largest header of a request.
	maxHeader = 64 << 10
)

// escaped is the number of bytes that JSON may take for a byte of text ("<"), and
// idBytes for a token number with its comma.
const escaped, idBytes = 6, 12

// fieldBytes is room for the other fields of a completion: the stop strings and the
// preserved tokens, escaped, and the options.
const fieldBytes = 2 << 20

// maxText returns the largest text to tokenize in bytes. Texts longer than the context
// are legal, because the host tokenizes a prompt to find out whether it must cut it.
func (l Limits) maxText() int {
	longest := min(max(l.LongestPiece, 1), 4<<20/max(l.Context, 1)) // a model file may name any piece
	return max(1<<20, longest*l.Context, 8*l.Context)
}

// maxPrompt returns the largest text in bytes that can fit into the context.
func (l Limits) maxPrompt() int {
	if l.LongestPiece == 0 || l.maxText()/l.LongestPiece < l.Context {
		return l.maxText()
	}
	return l.LongestPiece * l.Context
}

// completionBody returns the largest body of a completion.
func (l Limits) completionBody() int {
	return min(maxBody, escaped*l.maxPrompt()+idBytes*l.Context+fieldBytes)
}

// tokenizeBody returns the largest body of a text to tokenize.
func (l Limits) tokenizeBody() int { return min(maxBody, escaped*l.maxText()+smallBody) }

// detokenizeBody returns the largest body of a list of tokens. A client may keep the
// tokens of a longer context.
func (l Limits) detokenizeBody() int { return min(maxBody, idBytes*max(l.Context, 64<<10)+smallBody) }

// busy returns the answer to a request that found no room.
func busy(format string, args ...any) *refusal {
	r := refuse(http.StatusServiceUnavailable, format, args...)
	r.retry = true
	return r
}
