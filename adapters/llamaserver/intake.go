package llamaserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/connections"
)

// intake reads HTTP requests. intake bounds the memory and the processor time of all
// requests together, from their bodies to their prompts.
//
// A request first takes its share of the memory budget for bodies. When a request has
// read its body, it takes its share of the budget for decoding and tokenizing. No
// request waits for the memory budget while it holds a share of the work budget, so
// there is no deadlock.
type intake struct {
	bodies *semaphore.Weighted // bodies counts bytes, see bodyBudget
	small  *semaphore.Weighted // small counts requests with small bodies, see newIntake
	large  *semaphore.Weighted // large lets one request with a large body pass at a time
}

// newIntake returns an intake for the number of threads that Go may run. Small requests
// leave one thread for a large request and one for connections and /health: while all
// threads compute, Go looks for network events only every 10 ms.
func newIntake(threads int) intake {
	return intake{semaphore.NewWeighted(bodyBudget), semaphore.NewWeighted(int64(max(1, threads-2))), semaphore.NewWeighted(1)}
}

// acquire waits until a budget has room for a request's share.
func acquire(ctx context.Context, budget *semaphore.Weighted, n int64) error {
	if budget.TryAcquire(n) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, budgetTimeout)
	defer cancel()
	switch err := budget.Acquire(limited, n); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		panic(http.ErrAbortHandler) // the client has closed the connection
	}
	return busy("no slot available: other large requests did not end within %v. Ask again later.", budgetTimeout)
}

// read reads a request body of at most limit bytes. The caller of read calls release
// when it needs neither the body nor other data of that size.
func (in *intake) read(w http.ResponseWriter, r *http.Request, limit int) (body []byte, release func(), err error) {
	large := tooLarge(limit)
	if r.ContentLength > int64(limit) {
		return nil, nil, large
	}
	control := http.NewResponseController(w)
	// Ignore the error of a connection that has no deadlines: reading from it waits for the
	// client.
	_ = control.SetReadDeadline(time.Now().Add(readTimeout))
	// After the body, further reads only notice that the client has closed the
	// connection.
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	source := http.MaxBytesReader(w, r.Body, int64(limit))
	release = func() {}
	if body, err = readUpTo(source, nil, smallBody); err == nil {
		expected := int64(limit) // a chunked body does not say its size, so the limit is expected
		if r.ContentLength > 0 {
			expected = r.ContentLength
		}
		share := min(bodyCost*expected, bodyBudget)
		if err := acquire(r.Context(), in.bodies, share); err != nil {
			return nil, nil, err
		}
		release = func() { in.bodies.Release(share) }
		_ = control.SetReadDeadline(time.Now().Add(readTimeout))
		body, err = readUpTo(source, body, limit+1)
	}
	var exceeded *http.MaxBytesError
	switch {
	case err == io.EOF: //nolint:errorlint // the error is returned unwrapped, as readers do
		if connections.Arrived(w, r) {
			return body, release, nil
		}
		err = busy("no slot available: too many requests are answered already. Ask again later.")
	case err == nil, errors.As(err, &exceeded):
		err = large
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = refuse(http.StatusRequestTimeout, "the request did not come to its end within %v", readTimeout)
	default:
		err = refuse(http.StatusBadRequest, "the request ended early")
	}
	release()
	return nil, nil, err
}

// readUpTo appends to body until it has size bytes or the reader fails. Memory grows
// only with the bytes that have arrived.
func readUpTo(r io.Reader, body []byte, size int) ([]byte, error) {
	for len(body) < size {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(max(2*len(body), 4<<10), size))
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		if body = body[:len(body)+n]; err != nil {
			return body, err
		}
	}
	return body, nil
}

// work waits until a request body of n bytes may be decoded and tokenized. Small
// request bodies do not wait for large ones. The caller of work calls done when it has
// finished.
func (in *intake) work(ctx context.Context, n int) (done func(), err error) {
	budget := in.small
	if n > smallBody {
		budget = in.large
	}
	if err := acquire(ctx, budget, 1); err != nil {
		return nil, err
	}
	return func() { budget.Release(1) }, nil
}

// request reads a request body of at most limit bytes, decodes it into v, and then calls use.
// The function that use returns writes answers as large as the body. While that function
// writes, the request keeps its share of the memory budget, but not its share of the work
// budget.
func (in *intake) request(w http.ResponseWriter, r *http.Request, limit int, v any, use func(ctx context.Context) (answer func() error, err error)) error {
	body, release, err := in.read(w, r, limit)
	if err != nil {
		return err
	}
	defer release()
	done, err := in.work(r.Context(), len(body))
	if err != nil {
		return err
	}
	answer, err := func() (func() error, error) {
		defer done()
		err := json.Unmarshal(body, v)
		body = nil
		if err != nil {
			return nil, notJSON(err)
		}
		return use(r.Context())
	}()
	if err != nil || answer == nil {
		return err
	}
	connections.Of(r.Context()).Release()
	return answer()
}
