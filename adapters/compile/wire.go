package compile

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime/debug"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Device describes the library that the child opens.
type Device struct {
	Library, Name string
	SoC           uint32
	// Sharing is hexagon.Options.ConstantSharing.
	Sharing int
}

// Model describes the model file, which both processes read.
type Model struct {
	Path   string
	Digest [sha256.Size]byte
	// Size (in bytes) and Modified describe the file at the time when Digest was computed. If only
	// Modified differs, the digest decides.
	Size     int64
	Modified time.Time
}

// request is the message to the child.
type request struct {
	// Build describes the program of the sender.
	Build  string
	Device Device
	Model  Model
	Job    engine.Job
	// Ask requests the device's properties instead of an image.
	Ask bool
}

// build describes this program: its version, its modules and how it was built.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.String()
}

// reply is one message of the child. Zero fields mean nothing.
type reply struct {
	// Graph and Step name the step that starts now.
	Graph, Step string
	// Filled is the number of bytes of constants written since the last reply.
	Filled int
	// Image is the number of bytes of the image that follow the reply.
	Image int
	// Done is set when the image is complete. Failure is set if there is no image.
	Done    bool
	Failure *failure
	// Shares answers Ask: it is set if graphs of one image store equal weights once.
	Shares bool
}

// failure carries an error to the parent.
type failure struct {
	Text string
	// Kinds holds indices of kinds.
	Kinds []int
}

// kinds lists the errors that callers test with [errors.Is].
var kinds = []error{
	errors.ErrUnsupported, backend.ErrInvalidGraph, backend.ErrNoMemory, backend.ErrImage,
	model.ErrInvalid, model.ErrRounded, engine.ErrJob, context.Canceled, ErrChanged, ErrReplaced,
}

func newFailure(err error) *failure {
	f := &failure{Text: err.Error()}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			f.Kinds = append(f.Kinds, i)
		}
	}
	return f
}

// err returns an error with the same text and kinds as the child's.
func (f *failure) err() error {
	e := &childError{text: f.Text}
	for _, i := range f.Kinds {
		if i >= 0 && i < len(kinds) {
			e.kinds = append(e.kinds, kinds[i])
		}
	}
	return e
}

// childError has the text and the kinds of the child's error.
type childError struct {
	text  string
	kinds []error
}

func (e *childError) Error() string   { return e.text }
func (e *childError) Unwrap() []error { return e.kinds }
