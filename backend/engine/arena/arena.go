// Package arena divides device buffers into regions and binds regions to the
// ports of graphs.
//
// A device registers one large buffer faster than many small ones. So the
// engine places everything that one block binds in one buffer: [Arena.Place]
// reserves a [Region], [Arena.Allocate] makes the buffer for all of them, and
// [Bind] lists the regions in the order that a graph's signature asks for.
//
// The package allocates and computes offsets. It does not know what a region
// holds, runs no graph and starts no goroutine.
//
// # Invariants
//
//   - each region begins at a multiple of [Alignment] bytes;
//   - regions of one arena do not overlap;
//   - a region is valid until the caller closes the buffer.
//
// An arena is not safe for concurrent use. Regions are values; their
// bytes belong to the holder of the engine's device lock.
package arena

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// Alignment is the alignment in bytes that the device contract requires of a
// binding's offset.
const Alignment = 64

// Region is a part of a device buffer.
type Region struct {
	Buffer backend.Buffer
	// Offset and Size are in bytes.
	Offset, Size int
}

// Bytes returns the first n bytes of the region.
func (r Region) Bytes(n int) []byte { return r.Buffer.Bytes()[r.Offset : r.Offset+n : r.Offset+n] }

// All returns the bytes of the whole region.
func (r Region) All() []byte { return r.Bytes(r.Size) }

// From returns the region without its first skip bytes.
func (r Region) From(skip int) Region {
	return Region{Buffer: r.Buffer, Offset: r.Offset + skip, Size: r.Size - skip}
}

// Arena collects regions that will lie in one buffer. The zero value is empty.
type Arena struct {
	sizeBytes int
	regions   []*Region
}

// Place reserves size bytes for r, which [Arena.Allocate] completes.
func (a *Arena) Place(r *Region, size int) {
	r.Offset, r.Size = a.sizeBytes, size
	a.sizeBytes += (size + Alignment - 1) &^ (Alignment - 1)
	a.regions = append(a.regions, r)
}

// SizeBytes returns the size of the buffer that holds the regions so far.
func (a *Arena) SizeBytes() int { return a.sizeBytes }

// Allocate makes the buffer and points each region at it. The caller closes the
// buffer.
func (a *Arena) Allocate(dev backend.Device) (backend.Buffer, error) {
	b, err := dev.NewBuffer(a.sizeBytes)
	if err != nil {
		return nil, fmt.Errorf("engine: allocate %d bytes: %w", a.sizeBytes, err)
	}
	for _, r := range a.regions {
		r.Buffer = b
	}
	return b, nil
}

// Bind returns the regions of a graph's ports in the order of its signature. A
// port without a region, or with one that is too small, is
// [backend.ErrBinding].
func Bind(graph string, s backend.Signature, ports map[string]*Region) ([]backend.Binding, error) {
	bindings := make([]backend.Binding, 0, len(s.Inputs)+len(s.Outputs))
	for _, list := range [][]backend.Port{s.Inputs, s.Outputs} {
		for _, port := range list {
			r := ports[port.Name]
			if r == nil || port.SizeBytes() > r.Size {
				return nil, fmt.Errorf("engine: graph %s: port %s of %d bytes: %w", graph, port.Name, port.SizeBytes(), backend.ErrBinding)
			}
			bindings = append(bindings, backend.Binding{Buffer: r.Buffer, Offset: r.Offset})
		}
	}
	return bindings, nil
}
