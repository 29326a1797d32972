package hexagon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Compile builds the graphs in one context of the library and writes its image.
// The context is gone afterwards; cancellation is honoured between graphs.
func (d *Device) Compile(ctx context.Context, w io.Writer, graphs ...*backend.Graph) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hexagon: compile: %w", d.explain(err))
		}
	}()
	if d.closed.Load() {
		return backend.ErrClosed
	}
	if err := check(graphs); err != nil {
		return err
	}
	// One graph alone has nothing to share, and a shared image is another format.
	shared := len(graphs) > 1 && d.shares()
	c, err := d.backend.NewContext(d.device, qnn.ContextOptions{WeightSharing: shared})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m := &manifest{Fingerprint: d.fingerprint()}
	// Shared constants are filled once for all graphs; without sharing, one graph
	// is finished before the next is begun, as some libraries want it.
	together := [][]*backend.Graph{graphs}
	if !shared {
		together = slices.Collect(slices.Chunk(graphs, 1))
	}
	for _, part := range together {
		lowered, err := d.lower(ctx, c, part, qnn.GraphOptions{Optimization: d.optimization})
		if err != nil {
			return err
		}
		m.Graphs = append(m.Graphs, lowered...)
	}
	d.options.Trace("", "write the image of all graphs")
	size, err := c.BinarySize()
	if err != nil {
		return err
	}
	contextBinary, err := c.Binary(make([]byte, size))
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil { // the memory is wanted, and Close may be called twice
		return err
	}
	d.tryLoad(contextBinary)
	return writeImage(w, m, contextBinary)
}

// tryLoad loads a context and frees it, where that was asked for.
func (d *Device) tryLoad(contextBinary []byte) {
	if !d.options.TryLoad {
		return
	}
	d.options.Trace("", "load the image that it wrote")
	c, err := d.loadContext(contextBinary, false, 1, nil)
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		d.options.Logger.Debug("an image does not load where it was compiled", "reason", err)
	}
}

// check refuses what breaks the contract before the library sees any of it.
func check(graphs []*backend.Graph) error {
	if len(graphs) == 0 {
		return fmt.Errorf("%w: no graphs", backend.ErrInvalidGraph)
	}
	names := make(map[string]bool, len(graphs))
	for _, g := range graphs {
		if err := g.Validate(); err != nil {
			return err
		}
		if names[g.Name] {
			return fmt.Errorf("%w: two graphs are named %q", backend.ErrInvalidGraph, g.Name)
		}
		names[g.Name] = true
	}
	return nil
}

// describe notes what a run of the graph binds.
func describe(g *backend.Graph, tensors []qnn.Tensor) graphManifest {
	m := graphManifest{Name: g.Name, Nodes: len(g.Nodes)}
	for i, t := range g.Tensors {
		port := portManifest{backend.Port{Name: t.Name, Type: t.Type, Shape: t.Shape}, tensors[i].ID}
		switch t.Kind {
		case backend.Input:
			m.Inputs = append(m.Inputs, port)
		case backend.Output:
			m.Outputs = append(m.Outputs, port)
		}
	}
	return m
}
