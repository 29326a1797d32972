package compile

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Open opens the child's device; trace is to be told what it is about to do.
type Open func(d Device, trace func(graph, step string)) (backend.Device, error)

// Child is what the process that compiles brings along.
type Child struct {
	Open Open
	// Restore gives rounded matrices, which came without, their Codes.
	Restore func(*model.Rounded) error
	// Orphaned is called when the other end has gone away, from another
	// goroutine: it is meant to end the process.
	Orphaned func()
}

// Serve compiles what one request asks for. The request is answered with the
// reason when that fails; an error is a conversation that cannot go on.
func Serve(ctx context.Context, in io.Reader, out io.Writer, child Child) error {
	// The decoder reads no further than its message from a ByteReader.
	buffered := bufio.NewReader(in)
	var r request
	if err := gob.NewDecoder(buffered).Decode(&r); err != nil {
		return fmt.Errorf("compile: read the request: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, buffered) // ends with the parent, however it ends
		child.Orphaned()
	}()
	a := &answerer{out: out, gob: gob.NewEncoder(out)}
	final := reply{Done: true}
	var err error
	if r.Ask {
		final.Shares, err = r.ask(a, child.Open)
	} else {
		err = r.compile(ctx, a, child)
	}
	if err != nil {
		final = reply{Failure: newFailure(err)}
	}
	if err := a.send(final, nil); err != nil {
		return fmt.Errorf("compile: answer: %w", err)
	}
	return nil
}

// ask opens the library and finds out what it can.
func (r request) ask(a *answerer, open Open) (shares bool, err error) {
	a.step("", "open the library "+r.Device.Library)
	device, err := open(r.Device, a.step)
	if err != nil {
		return false, err
	}
	a.step("", "see whether it stores weights once")
	shares = device.Capabilities().SharesConstants
	a.step("", "close the library")
	return shares, device.Close()
}

func (r request) compile(ctx context.Context, a *answerer, child Child) (err error) {
	a.step("", "open the model")
	file, err := gguf.Open(r.Model.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := r.Model.same(a, file); err != nil {
		return err
	}
	m, err := model.Load(file)
	if err != nil {
		return err
	}
	if err := r.restore(child.Restore); err != nil {
		return err
	}
	a.step("", "open the library "+r.Device.Library)
	device, err := child.Open(r.Device, a.step)
	if err != nil {
		return err
	}
	a.step("", "begin")
	err = r.Job.Compile(ctx, device, m, a, func(bytes int) { a.tell(reply{Filled: bytes}) })
	a.step("", "close the library") // not deferred: a crash is not to look like this
	return errors.Join(err, device.Close())
}

// restore completes the recipes of all graphs, which share their matrices.
func (r request) restore(codes func(*model.Rounded) error) error {
	known := make(map[string]*model.Rounded)
	for _, source := range r.Job.Graphs {
		ranges := source.Recipe().Ranges
		if ranges == nil || ranges.Rounded == nil {
			continue
		}
		id := ranges.Rounded.ID
		if known[id] == nil {
			if err := codes(ranges.Rounded); err != nil {
				return fmt.Errorf("compile: %w", err)
			}
			known[id] = ranges.Rounded
		}
		ranges.Rounded = known[id]
	}
	return nil
}

// same checks that the file is the one that was digested. One whose time alone
// is another, because somebody touched or copied it, is digested again, which
// takes seconds for a large model.
func (m Model) same(a *answerer, file *gguf.File) error {
	info, err := os.Stat(m.Path)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if info.Size() == m.Size && info.ModTime().Equal(m.Modified) {
		file.KnowDigest(m.Digest)
		return nil
	}
	a.step("", "read the model again, which was touched")
	if info.Size() == m.Size && file.Digest() == m.Digest {
		return nil
	}
	return fmt.Errorf("compile: %w: %s (%d bytes of %s) is not what was loaded (%d bytes of %s): load the model again",
		ErrChanged, m.Path, info.Size(), info.ModTime().Format(time.DateTime), m.Size, m.Modified.Format(time.DateTime))
}

// answerer writes replies; it is the writer of the image too.
type answerer struct {
	mu  sync.Mutex
	out io.Writer
	gob *gob.Encoder
	err error
}

func (a *answerer) send(r reply, image []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = a.gob.Encode(r)
	}
	if a.err == nil && len(image) > 0 {
		_, a.err = a.out.Write(image)
	}
	return a.err
}

// tell sends what may get lost: a parent that does not listen is gone, which
// the next bytes of the image notice.
func (a *answerer) tell(r reply) { _ = a.send(r, nil) }

func (a *answerer) step(graph, step string) { a.tell(reply{Graph: graph, Step: step}) }

// Write sends a part of the image.
func (a *answerer) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := a.send(reply{Image: len(p)}, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
