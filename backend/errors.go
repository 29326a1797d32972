package backend

import "errors"

var (
	// ErrInvalidGraph is returned when a graph breaks a rule of this package.
	ErrInvalidGraph = errors.New("invalid graph")
	// ErrImage is returned if an image is damaged or was made by another
	// device, version or chip. Compile the graphs again.
	ErrImage = errors.New("image does not fit this device")
	// ErrNoGraph is returned when a program has no graph of the given name.
	ErrNoGraph = errors.New("no such graph")
	// ErrBinding is returned when bindings do not fit a graph's signature.
	ErrBinding = errors.New("bindings do not fit the graph")
	// ErrNoMemory is returned when a device is out of memory.
	ErrNoMemory = errors.New("out of device memory")
	// ErrRestarted is returned after a device has restarted. Programs are lost
	// and must be loaded again. Buffers keep their contents.
	ErrRestarted = errors.New("the device has restarted")
	// ErrGone is returned if this process can no longer reach the device.
	// Another process may still open it.
	ErrGone = errors.New("the device is gone for this process")
	// ErrClosed is returned by calls on a closed value.
	ErrClosed = errors.New("already closed")
)
