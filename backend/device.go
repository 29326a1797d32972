package backend

import (
	"context"
	"io"
)

// Device compiles graphs to images, and loads and runs them. Device's methods may be
// called from any goroutine. The caller closes all programs and buffers before it
// closes the device.
type Device interface {
	// Capabilities returns what the device supports, such as sharing constants, and its
	// fingerprint. The capabilities of a device do not change.
	Capabilities() Capabilities
	// Compile writes one image that holds the graphs. If a device shares constants,
	// Compile stores equal constants of the graphs once. If the device does not support
	// a node, Compile's error wraps [errors.ErrUnsupported] and names graph and node.
	Compile(ctx context.Context, w io.Writer, graphs ...*Graph) error
	// Load loads an image into device memory. The graphs of the loaded program are run
	// by name. Load's error wraps [ErrImage] if another device or version made the
	// image, and [ErrNoMemory] if the device is out of memory.
	Load(ctx context.Context, image Image) (Program, error)
	// NewBuffer allocates zeroed memory that programs use in runs, such as the KV
	// cache. NewBuffer's error wraps [ErrNoMemory] if the device has no memory left for
	// the buffer.
	NewBuffer(sizeBytes int) (Buffer, error)
	// Close releases the device's resources. Close may be called twice.
	Close() error
}

// Lane names the part of the phone that runs a device's graphs: its NPU or its CPU. Reports of the
// engine count the operators that the NPU and the CPU have computed.
type Lane string

// The constants below name the units of a phone that can run graphs: its NPU and its CPU.
const (
	NPU Lane = "npu"
	CPU Lane = "cpu"
)

// Capabilities describes a device, for people and for the keys of image caches.
type Capabilities struct {
	// Lane is the unit that runs the graphs of this device.
	Lane Lane
	// Name is the name by which the user selected the device, such as "float",
	// "emulator" or a path.
	Name string
	// Provider and BuildID are the provider name and the build ID that the device's library
	// reports.
	Provider, BuildID string
	// SoC is the chip that images are compiled for, or empty if images fit any
	// chip.
	SoC string
	// SharesConstants is set if the graphs of one image share one copy of equal constants. On a
	// device that shares constants, all graphs of a block together take the memory of one copy of
	// the block's weights.
	SharesConstants bool
	// SwapsGraphs is set if the device itself can swap the graphs of an image: before a run, the
	// device then loads the graph that the run needs. See [Image].
	SwapsGraphs bool
	// Fingerprint changes whenever older images become invalid: the fingerprint covers versions,
	// chip and compile options.
	Fingerprint string
}

// Image holds the bytes that Compile has written for one or more graphs. Bytes must stay valid and
// unchanged until the programs loaded from it are closed, because devices use mapped images in
// place.
type Image struct {
	Bytes []byte
	// Own is set if no other user could have written Bytes: this process compiled the
	// image, or it comes from a folder that only this user can write. A device that
	// cannot check an image against the image's own description loads only images with
	// Own set.
	Own bool
	// If Swap is set, the device keeps in memory only some of the image's graphs at a time. If
	// a run needs a graph that is not in memory, the device swaps graphs inside the run, which
	// then takes longer. If Swap is set and Capabilities.SwapsGraphs is not, Load returns
	// [errors.ErrUnsupported].
	Swap bool
}

// Program is an image that a device has loaded. The caller never makes two runs of a
// program at the same time. Runs of different programs may overlap, with each other and
// with Load and Close.
type Program interface {
	// Signature returns the ports of a graph of the program. For an unknown name,
	// Signature returns [ErrNoGraph].
	Signature(graph string) (Signature, error)
	// Run executes a graph once. bindings are in the order of the signature, inputs first. If the
	// number of bindings is wrong or a buffer is too small, Run returns [ErrBinding] and runs
	// nothing. Run checks ctx only before the graph starts, because a running graph cannot be
	// interrupted.
	Run(ctx context.Context, graph string, bindings []Binding) error
	// SizeBytes returns the device memory that the program holds.
	SizeBytes() int64
	// Close waits until a run in progress ends and frees the program's memory. Runs
	// after Close return [ErrClosed]. Close may be called twice.
	Close() error
}

// Signature lists the inputs and outputs of a graph.
type Signature struct {
	Inputs, Outputs []Port
	// Nodes is the number of operators that the device runs, and HostNodes the number that the host
	// computes ([HostRemainder]).
	Nodes, HostNodes int
}

// Port gives the name, element type and shape of an input or output of a graph.
type Port struct {
	Name  string
	Type  DataType
	Shape []int
}

// SizeBytes returns the size of the port's elements in bytes.
func (p Port) SizeBytes() int {
	n := p.Type.Size()
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Binding assigns memory to a port: a part of Buffer that begins at Offset. Offset counts
// bytes and is a multiple of 64.
type Binding struct {
	Buffer Buffer
	Offset int
}

// Buffer is memory that both the caller and the device access. The caller must not
// touch bytes that a running graph uses.
type Buffer interface {
	// Bytes returns the whole memory of the buffer. The slice that Bytes returns is
	// valid until Close.
	Bytes() []byte
	// Close frees the memory of the buffer. Close may be called twice.
	Close() error
}
