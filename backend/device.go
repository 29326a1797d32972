package backend

import (
	"context"
	"io"
)

// Device turns graphs into programs. Its methods may be called from any
// goroutine; whatever it returned must be closed before it is.
type Device interface {
	Capabilities() Capabilities
	// Compile writes one image holding the graphs; they share equal constants
	// where the device can. What the device cannot do is
	// [errors.ErrUnsupported], naming graph and node.
	Compile(ctx context.Context, w io.Writer, graphs ...*Graph) error
	// Load brings an image into device memory; its graphs run by name. An
	// image of another device or version is [ErrImage].
	Load(ctx context.Context, image Image) (Program, error)
	// NewBuffer allocates zeroed memory that programs bind per run (KV cache,
	// I/O). Running out of memory is [ErrNoMemory].
	NewBuffer(sizeBytes int) (Buffer, error)
	Close() error
}

// Lane is a unit that runs graph operators; every request reports its
// operators per lane.
type Lane string

// The lanes that run graphs.
const (
	NPU Lane = "npu"
	CPU Lane = "cpu"
)

// Capabilities describes a device to people and to caches.
type Capabilities struct {
	// Lane is where the graphs of this device run.
	Lane Lane
	// Name is how the device is selected: "float", "emulator", a path.
	Name string
	// Provider and BuildID are what the library says of itself.
	Provider, BuildID string
	// SoC is the chip that images are compiled for; empty where it does not
	// matter.
	SoC string
	// SharesConstants tells that graphs compiled into one image hold equal
	// constants once: a block's widths then cost one block's weights.
	SharesConstants bool
	// SwapsGraphs tells that the device can exchange the graphs of an image by
	// itself, each brought in by the run that needs it: see [Image].
	SwapsGraphs bool
	// Fingerprint holds everything of this device that decides whether an
	// image made earlier is still valid: versions, chip, compile options.
	Fingerprint string
}

// Image is what Compile wrote. Bytes must stay valid and unchanged until the
// programs loaded from it are closed: devices use mapped images in place.
type Image struct {
	Bytes []byte
	// Swap asks for less memory than all graphs of the image take: the device
	// exchanges them inside the runs that need them, which then take longer. Where
	// Capabilities.SwapsGraphs is not set that is [errors.ErrUnsupported].
	Swap bool
}

// Program is a loaded image.
type Program interface {
	// Signature tells what a graph binds; an unknown name is [ErrNoGraph].
	Signature(graph string) (Signature, error)
	// Run executes a graph once. Bindings stand in the signature's order,
	// inputs first; a wrong number or a buffer too small is an error before
	// anything runs. Runs of one program are serialised by the caller. A run
	// cannot be interrupted: ctx is looked at before it starts.
	Run(ctx context.Context, graph string, bindings []Binding) error
	// SizeBytes is the device memory that the program holds.
	SizeBytes() int64
	// Close frees the program. It may be called twice.
	Close() error
}

// Binder is a [Program] whose device has to be told of memory before it uses it.
// Bind does that ahead of the first run with some bindings, and may be called
// beside runs of other programs. What finds no room is [ErrNoMemory].
type Binder interface {
	Bind(graph string, bindings []Binding) error
}

// Signature lists what a graph binds and what it runs.
type Signature struct {
	Inputs, Outputs []Port
	// Nodes is the number of operators that one run executes.
	Nodes int
}

// Port is one bound tensor.
type Port struct {
	Name  string
	Type  DataType
	Shape []int
}

// SizeBytes is the size of the port's elements.
func (p Port) SizeBytes() int {
	n := p.Type.Size()
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Binding gives a port its memory: the port's size from Offset on, which is a
// multiple of 64.
type Binding struct {
	Buffer Buffer
	Offset int
}

// Buffer is memory that both the caller and the device see. The caller must
// not touch bytes that a running graph binds.
type Buffer interface {
	// Bytes is the whole memory, valid until Close.
	Bytes() []byte
	// Close may be called twice.
	Close() error
}
