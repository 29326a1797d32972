package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// Image is a compiled image and, while it is loaded, its program.
type Image struct {
	program backend.Program   // nil while the image is not loaded
	bytes   []byte            // what the program runs on
	entry   *imagecache.Entry // nil if the image's bytes are in ordinary memory
	own     bool              // no other user could have written the bytes
	graphs  []*Graph          // in the order of sources
	sources []*backend.Graph
}

// Graph is a loaded graph of an image.
type Graph struct {
	Name      string
	Program   backend.Program
	Signature backend.Signature
}

// Graphs returns the loaded graphs in the order in which the loader got them.
func (i *Image) Graphs() []*Graph { return i.graphs }

// SizeBytes returns the device memory of the program: zero if it is not loaded.
func (i *Image) SizeBytes() int64 {
	if i == nil || i.program == nil {
		return 0
	}
	return i.program.SizeBytes()
}

// Free closes the program and keeps the bytes for [Image.Reload].
func (i *Image) Free() error {
	if i == nil || i.program == nil {
		return nil
	}
	err := i.program.Close()
	i.program, i.graphs = nil, nil
	return err
}

// Reload loads a freed image again.
func (i *Image) Reload(ctx context.Context, l *Loader) error {
	again, err := l.open(ctx, i.sources, i.bytes, i.own)
	if err != nil {
		return err
	}
	i.program, i.graphs = again.program, again.graphs
	return nil
}

// Close closes the program and releases the bytes.
func (i *Image) Close() error {
	err := i.Free()
	if i != nil && i.entry != nil {
		err = errors.Join(err, i.entry.Close())
		i.entry = nil
	}
	return err
}

// CloseAll closes images.
func CloseAll(list []*Image) error {
	var err error
	for _, i := range list {
		err = errors.Join(err, i.Close())
	}
	return err
}

// ReloadAll frees and loads images, which a restart of the device has made useless,
// and returns their graphs in the order of [Loader.Load].
func ReloadAll(ctx context.Context, l *Loader, list []*Image) (graphs []*Graph, err error) {
	for _, i := range list {
		if freed := i.Free(); freed != nil {
			l.config.Logger.Debug("a lost graph cannot be freed", "reason", freed)
		}
		if err := i.Reload(ctx, l); err != nil {
			return nil, err
		}
		graphs = append(graphs, i.graphs...)
	}
	return graphs, nil
}

// TotalBytes returns the device memory of the loaded images.
func TotalBytes(list []*Image) (size int64) {
	for _, i := range list {
		size += i.SizeBytes()
	}
	return size
}

// open loads an image and checks its ports against the ports of the graphs.
func (l *Loader) open(ctx context.Context, graphs []*backend.Graph, bytes []byte, own bool) (*Image, error) {
	program, err := l.dev.Load(ctx, backend.Image{Bytes: bytes, Own: own, Swap: l.config.Swap && len(graphs) > 1})
	if err != nil {
		return nil, fmt.Errorf("engine: load %s: %w", Name(graphs), err)
	}
	i := &Image{program: program, bytes: bytes, own: own, sources: graphs}
	for _, g := range graphs {
		s, err := checkedSignature(program, g)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("engine: load %s: %w", g.Name, err), program.Close())
		}
		i.graphs = append(i.graphs, &Graph{Name: g.Name, Program: program, Signature: s})
	}
	return i, nil
}

// checkedSignature returns the program's signature of a graph, which must have the
// ports of the graph itself.
func checkedSignature(p backend.Program, g *backend.Graph) (backend.Signature, error) {
	got, err := p.Signature(g.Name)
	if errors.Is(err, backend.ErrNoGraph) {
		err = fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	want := g.Signature()
	if err == nil && (!samePorts(want.Inputs, got.Inputs) || !samePorts(want.Outputs, got.Outputs)) {
		err = fmt.Errorf("%w: its ports differ from the graph's", backend.ErrImage)
	}
	return got, err
}

// samePorts compares ports in any order: they are bound by name.
func samePorts(want, got []backend.Port) bool {
	if len(want) != len(got) {
		return false
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(p backend.Port) bool {
			return p.Name == w.Name && p.Type == w.Type && slices.Equal(p.Shape, w.Shape)
		}) {
			return false
		}
	}
	return true
}

// Name returns a short name of the graphs of an image: block0_rows{1,128}.
func Name(graphs []*backend.Graph) string {
	names := make([]string, len(graphs))
	for i, g := range graphs {
		names[i], _, _ = strings.Cut(g.Name, layersMark)
	}
	prefix := names[0]
	if len(graphs) == 1 {
		return prefix
	}
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = strings.TrimRight(prefix, "0123456789") // {1,128}, not {,28} after a common 1
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, prefix)
	}
	return prefix + "{" + strings.Join(names, ",") + "}"
}
