package compile

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Device says which library the child opens.
type Device struct {
	Library, Name string
	SoC           uint32
	// Sharing is hexagon's option of that name.
	Sharing int
}

// Model is the file that both processes read.
type Model struct {
	Path   string
	Digest [sha256.Size]byte
	// Size in bytes and Modified tell whether it still is what was digested; with
	// another time alone its bytes do.
	Size     int64
	Modified time.Time
}

// request is all that the child is told.
type request struct {
	Device Device
	Model  Model
	Job    engine.Job
	// Ask wants to know what the device is, and nothing compiled.
	Ask bool
}

// reply is one message of the child. What is zero says nothing.
type reply struct {
	// Graph and Step tell what is begun.
	Graph, Step string
	// Filled counts bytes of constants since the last reply.
	Filled int
	// Image is the number of bytes of the image that follow the reply.
	Image int
	// Done tells that the image is complete; Failure that there is none.
	Done    bool
	Failure *failure
	// Shares answers Ask: graphs of one image store equal weights once.
	Shares bool
}

// failure carries an error to the parent.
type failure struct {
	Text string
	// Kinds are places in kinds.
	Kinds []int
}

// kinds are the errors that somebody asks for with [errors.Is].
var kinds = []error{
	errors.ErrUnsupported, backend.ErrInvalidGraph, backend.ErrNoMemory, backend.ErrImage,
	model.ErrInvalid, engine.ErrJob, context.Canceled, ErrChanged,
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

// err is the error as it was on the other side.
func (f *failure) err() error {
	e := &childError{text: f.Text}
	for _, i := range f.Kinds {
		if i >= 0 && i < len(kinds) {
			e.kinds = append(e.kinds, kinds[i])
		}
	}
	return e
}

// childError has the text of the child's error and is of its kinds.
type childError struct {
	text  string
	kinds []error
}

func (e *childError) Error() string   { return e.text }
func (e *childError) Unwrap() []error { return e.kinds }
