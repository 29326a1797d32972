package qnn

import (
	"errors"
	"fmt"
	"strings"
)

// Code is the number of a failed call: the low 16 bits of what it returned.
// Each thousand belongs to one part of the interface (5000 contexts, 6000
// graphs, 7000 tensors, ...).
type Code uint32

// Codes that callers tell apart. They are matched with [errors.Is] and the
// sentinels below.
const (
	codeNotSupported       Code = 1000
	codeNoMemory           Code = 1002
	codeInvalidArgument    Code = 1004
	codeCommunication      Code = 1007
	codeIncompatibleBinary Code = 1008
	codeLoadingBinary      Code = 1009
	codeUnavailable        Code = 1010
	codeFatalCommunication Code = 1011
	codeOpInvalid          Code = 3110
	codeOpUnknown          Code = 4005
	codeBackendHandle      Code = 4011
	codeContextHandle      Code = 5002
	codeContextOpen        Code = 5003
	codeBinaryVersion      Code = 5004
	codeCreateFromBinary   Code = 5005
	codeContextConfig      Code = 5010
	codeGraphHandle        Code = 6001
	codeGraphName          Code = 6003
	codeGraphTensor        Code = 6004
	codeGraphOpConfig      Code = 6005
	codeGraphNotFinalized  Code = 6023
	codeGraphFinalized     Code = 6024
	codeTensorHandle       Code = 7001
	codeTensorExists       Code = 7003
	codeTensorParameter    Code = 7004
	codeMemoryHandle       Code = 8001
	codeMemoryMapping      Code = 8003
	codePowerInput         Code = 13001
	codePowerOption        Code = 13002
	codePowerUnsupported   Code = 13004
	codeDeviceHandle       Code = 14000
	codeDeviceConfig       Code = 14001
	codeHardware           Code = 14002
	codeMalformedBinary    Code = 30010
	codeInvalidBinary      Code = 30001
)

// Sentinels for codes: each matches a failed call of any function that
// returned this code.
var (
	// ErrNotSupported is returned when the library lacks a feature. It also
	// matches [errors.ErrUnsupported].
	ErrNotSupported = &Error{Code: codeNotSupported}
	// ErrNoMemory is returned when memory ran out, and by the vendor's finalize
	// for a graph it cannot compile: the log lines in Detail tell which.
	ErrNoMemory = &Error{Code: codeNoMemory}
	// ErrInvalidArgument is returned when an argument is out of range.
	ErrInvalidArgument = &Error{Code: codeInvalidArgument}
	// ErrCommunication is returned when the DSP did not answer; it may have
	// restarted, after which contexts must be created anew.
	ErrCommunication = &Error{Code: codeCommunication}
	// ErrIncompatibleBinary is returned when an image was made for another
	// device or version.
	ErrIncompatibleBinary = &Error{Code: codeIncompatibleBinary}
	// ErrLoadingBinary is returned when the device could not load an image.
	ErrLoadingBinary = &Error{Code: codeLoadingBinary}
	// ErrUnavailable is returned when a resource of the device is taken.
	ErrUnavailable = &Error{Code: codeUnavailable}
	// ErrFatalCommunication is returned when the DSP is gone for this process;
	// only a new process can reach it.
	ErrFatalCommunication = &Error{Code: codeFatalCommunication}
	// ErrOpInvalid is returned by [Backend.Validate] when inputs, outputs or
	// parameters do not fit the operator.
	ErrOpInvalid = &Error{Code: codeOpInvalid}
	// ErrOpUnknown is returned by [Backend.Validate] when the library has no
	// such operator. It also matches [errors.ErrUnsupported].
	ErrOpUnknown = &Error{Code: codeOpUnknown}
	// ErrInvalidContext is returned when a backend, device or context handle is
	// not alive.
	ErrInvalidContext = &Error{Code: codeContextHandle}
	// ErrBinaryVersion is returned when an image has a version that the library
	// cannot read.
	ErrBinaryVersion = &Error{Code: codeBinaryVersion}
	// ErrCreateFromBinary is returned when an image is damaged or refused.
	ErrCreateFromBinary = &Error{Code: codeCreateFromBinary}
	// ErrInvalidGraph is returned when a graph handle is not alive.
	ErrInvalidGraph = &Error{Code: codeGraphHandle}
	// ErrGraphName is returned when a graph's name is taken or unknown.
	ErrGraphName = &Error{Code: codeGraphName}
	// ErrGraphTensor is returned when an execute names an unknown tensor.
	ErrGraphTensor = &Error{Code: codeGraphTensor}
	// ErrOpConfig is returned when a node is refused.
	ErrOpConfig = &Error{Code: codeGraphOpConfig}
	// ErrNotFinalized is returned when a graph runs before it was finalized.
	ErrNotFinalized = &Error{Code: codeGraphNotFinalized}
	// ErrFinalized is returned when a finalized graph is changed.
	ErrFinalized = &Error{Code: codeGraphFinalized}
	// ErrInvalidTensorGraph is returned when a tensor is created in a graph that
	// is not alive.
	ErrInvalidTensorGraph = &Error{Code: codeTensorHandle}
	// ErrTensorExists is returned when a tensor's name is taken.
	ErrTensorExists = &Error{Code: codeTensorExists}
	// ErrTensorParameter is returned when a tensor's type, shape or data is
	// refused.
	ErrTensorParameter = &Error{Code: codeTensorParameter}
	// ErrPowerInput is returned when a power vote is refused.
	ErrPowerInput = &Error{Code: codePowerInput}
	// ErrPowerUnsupported is returned when the chip has no such vote. It also
	// matches [errors.ErrUnsupported].
	ErrPowerUnsupported = &Error{Code: codePowerUnsupported}
	// ErrInvalidMemory is returned when memory is not registered.
	ErrInvalidMemory = &Error{Code: codeMemoryHandle}
	// ErrMapping is returned when shared memory finds no room in the session.
	ErrMapping = &Error{Code: codeMemoryMapping}
	// ErrInvalidBackend is returned when a backend handle is not alive.
	ErrInvalidBackend = &Error{Code: codeBackendHandle}
	// ErrContextOpen is returned when a context is saved before all its graphs
	// are finalized.
	ErrContextOpen = &Error{Code: codeContextOpen}
	// ErrContextConfig is returned when a context refuses an option of its own.
	ErrContextConfig = &Error{Code: codeContextConfig}
	// ErrInvalidDevice is returned when a device handle is not alive.
	ErrInvalidDevice = &Error{Code: codeDeviceHandle}
	// ErrDeviceConfig is returned when a device refuses its options, such as an
	// unknown SoC.
	ErrDeviceConfig = &Error{Code: codeDeviceConfig}
	// ErrHardware is returned when there is no NPU to be had.
	ErrHardware = &Error{Code: codeHardware}
	// ErrMalformedBinary is returned when an image is cut short.
	ErrMalformedBinary = &Error{Code: codeMalformedBinary}
	// ErrInvalidBinary is returned when bytes are no image at all.
	ErrInvalidBinary = &Error{Code: codeInvalidBinary}
)

// Sentinels for what this package itself refuses.
var (
	// ErrVersion is returned when a library's interface is older than this
	// package can speak, or of another kind.
	ErrVersion = errors.New("wrong library version")
	// ErrSize is returned when a buffer does not have the size of its tensor.
	ErrSize = errors.New("wrong size")
	// ErrQuantization is returned when the fields of a [Quantization] do not fit
	// its encoding or the tensor's shape.
	ErrQuantization = errors.New("quantization does not fit")
	// ErrName is returned when a name is empty or holds a NUL byte.
	ErrName = errors.New("name is empty or holds a NUL byte")
	// ErrClosed is returned when a handle is used after its Close, or a graph
	// after that of its context.
	ErrClosed = errors.New("already closed")
)

// Error is a failed call into the library.
type Error struct {
	// Call is the C function, "contextCreateFromBinary".
	Call string
	// Code is the number it returned.
	Code Code
	// Message is the library's own text for the code, "" where it has none.
	Message string
	// Detail holds the error lines that the library logged during the call, the
	// oldest first. They are there only when a [Log] is open, and another
	// goroutine's call at the same time may mix its lines in.
	Detail []string
}

// Error names the call, the code and all that is known about it.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "qnn: %s: code %d", e.Call, e.Code)
	if e.Message != "" {
		fmt.Fprintf(&b, " (%s)", e.Message)
	}
	for i, line := range e.Detail {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(line)
	}
	return b.String()
}

// Is reports whether target carries the same code, whatever the call. The
// codes that mean "cannot do this at all" also match [errors.ErrUnsupported].
func (e *Error) Is(target error) bool {
	if target == errors.ErrUnsupported {
		return e.Code == codeNotSupported || e.Code == codeOpUnknown || e.Code == codePowerOption || e.Code == codePowerUnsupported
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
