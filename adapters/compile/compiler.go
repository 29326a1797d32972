package compile

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
)

const (
	// DefaultPatience is how long a child may be silent at least. The longest
	// silence is a library that finalizes a graph: seconds on the emulator.
	DefaultPatience = 2 * time.Minute
	// bytesPerSecond is what a library compiles at the very least; the vendor's
	// needs a second for some 50 MB.
	bytesPerSecond = 5e6
	// ending is how long a child that has answered may take to end.
	ending = 5 * time.Second
	// piece is how much of an image is copied at a time.
	piece = 1 << 20
)

// Compiler has images of one model compiled by children.
type Compiler struct {
	// Program is started with Args, and there [Serve] answers.
	Program string
	Args    []string
	Device  Device
	Model   Model
	// Patience is how long a child may tell nothing, besides what the size of its
	// work allows. Zero means [DefaultPatience].
	Patience time.Duration
	// Logger receives, at debug level, what children write to stderr.
	Logger *slog.Logger
}

// Compile is for [engine.Options].Compile. A child that dies is [ErrCrashed], one
// that hangs [ErrSilent]; both say in which graph and at which step. When ctx is
// done the child is killed, whatever the library is doing.
func (c Compiler) Compile(ctx context.Context, w io.Writer, job engine.Job, filled func(bytes int)) error {
	return c.converse(ctx, request{Device: c.Device, Model: c.Model, Job: job}, &listener{w: w, filled: filled})
}

// Shares asks the device whether graphs of one image store equal weights once.
// Its errors are those of [Compiler.Compile]; there need be no model.
func (c Compiler) Shares(ctx context.Context) (bool, error) {
	l := &listener{w: io.Discard, filled: func(int) {}}
	err := c.converse(ctx, request{Device: c.Device, Ask: true}, l)
	return l.shares, err
}

// converse starts a child, sends the request and listens.
func (c Compiler) converse(ctx context.Context, r request, l *listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	words := &words{logger: c.Logger}
	cmd := exec.CommandContext(ctx, c.Program, c.Args...)
	cmd.Args[0] = "sdnpu" // and not what a host calls us
	cmd.Stderr, cmd.WaitDelay = words, ending
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("compile: start a process to compile in (%s): %w", withoutChild, err)
	}
	limit := c.limit(r.Job)
	watch := time.AfterFunc(limit, func() { cancel(ErrSilent) })
	defer watch.Stop()
	l.in, l.alive = bufio.NewReaderSize(stdout, piece), func() { watch.Reset(limit) }
	sent := gob.NewEncoder(stdin).Encode(r)
	answered, err := l.listen()
	if answered {
		watch.Reset(ending) // it ends by itself, or is ended
	} else if err != nil {
		cancel(err)
	}
	ended := cmd.Wait() // closes stdin, too
	switch {
	case answered || err != nil:
		return err
	case context.Cause(ctx) == ErrSilent: //nolint:errorlint // exactly ours
		return fmt.Errorf("compile: %w: nothing for %v, %s%s; SDNPU_COMPILE=%v waits longer, another version of the library may be sound",
			ErrSilent, limit.Round(time.Second), l.where(), words.last(), 5*limit.Round(time.Second))
	case ctx.Err() != nil:
		return fmt.Errorf("compile: %w", context.Cause(ctx))
	}
	return fmt.Errorf("compile: %w, %s: %s; nothing else is harmed: try another version of the library, another recipe or fewer layers per graph (sdnpu.blocks)",
		ErrCrashed, l.where(), words.cause(errors.Join(ended, sent)))
}

// withoutChild is the way out where processes cannot be started.
const withoutChild = "SDNPU_COMPILE=inline does without"

// limit is how long silence is no bad sign.
func (c Compiler) limit(job engine.Job) time.Duration {
	patience := c.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	return patience + time.Duration(float64(job.Weights)/bytesPerSecond*float64(time.Second))
}

// listener reads the child's replies.
type listener struct {
	in          *bufio.Reader
	w           io.Writer
	filled      func(bytes int)
	alive       func()
	graph, step string
	shares      bool
}

// listen returns once the child has answered, with the child's error, or has
// stopped to talk, or with an error of w.
func (l *listener) listen() (answered bool, err error) {
	replies := gob.NewDecoder(l.in)
	for {
		var r reply
		switch err := replies.Decode(&r); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil // why, the end of the process tells
		case err != nil:
			return false, fmt.Errorf("compile: %w, %s: what it writes is no answer: %w", ErrCrashed, l.where(), err)
		}
		l.alive()
		switch {
		case r.Failure != nil:
			return true, r.Failure.err()
		case r.Done:
			l.shares = r.Shares
			return true, nil
		case r.Step != "":
			l.graph, l.step = r.Graph, r.Step
		case r.Filled > 0:
			l.filled(r.Filled)
		}
		if err := l.copy(r.Image); err != nil {
			return false, err
		}
	}
}

// copy hands a part of the image on. A pipe that ends early is seen by whoever
// reads the next reply.
func (l *listener) copy(size int) error {
	for size > 0 {
		l.alive()
		part, err := l.in.Peek(min(size, l.in.Size()))
		if len(part) == 0 || err != nil && !errors.Is(err, io.EOF) {
			return nil
		}
		if _, err := l.w.Write(part); err != nil {
			return err
		}
		n, _ := l.in.Discard(len(part)) // what was peeked is there
		size -= n
	}
	return nil
}

// where names what the child was doing.
func (l *listener) where() string {
	switch {
	case l.graph != "":
		return fmt.Sprintf("in graph %q at: %s", l.graph, l.step)
	case l.step != "":
		return "at: " + l.step
	}
	return "before its first word"
}
