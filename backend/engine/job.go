package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Source says how the model writes a graph; one of the two is set. Unlike a
// graph, whose constants are functions, it can be sent to another process.
type Source struct {
	Block *model.Block
	Head  *model.Head
}

// name is the graph's.
func (s Source) name() string {
	if s.Block != nil {
		return s.Block.Name
	}
	return s.Head.Name
}

// Recipe is the graph's.
func (s Source) Recipe() model.Recipe {
	switch {
	case s.Block != nil:
		return s.Block.Recipe
	case s.Head != nil:
		return s.Head.Recipe
	}
	return model.Recipe{}
}

func (s Source) write(m *model.Model) (*backend.Graph, error) {
	switch {
	case s.Block != nil:
		return m.Block(*s.Block)
	case s.Head != nil:
		return m.Head(*s.Head)
	}
	return nil, fmt.Errorf("%w: a graph that is neither block nor head", ErrJob)
}

// Job is an image that is to be compiled, as [Options].Compile is given it.
type Job struct {
	Graphs []Source
	// Digest is that of the graphs, which have to come out the same wherever
	// they are written.
	Digest [sha256.Size]byte
	// Weights are the bytes of their constants, as a measure of the work.
	Weights int64
}

// Compile writes the job's graphs from m and their image to w; filled is told
// the bytes of every constant once it is filled in. Graphs that come out
// otherwise, because the model or this program is another, are [ErrJob].
func (j Job) Compile(ctx context.Context, dev backend.Device, m *model.Model, w io.Writer, filled func(bytes int)) error {
	graphs, err := writeAll(m, j.Graphs)
	if err != nil {
		return err
	}
	if digestOf(graphs) != j.Digest {
		return fmt.Errorf("engine: %w", ErrJob)
	}
	return dev.Compile(ctx, w, counted(ctx, graphs, filled)...)
}

// digestOf identifies a set of graphs.
func digestOf(graphs []*backend.Graph) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, g := range graphs {
		fmt.Fprintf(h, "%x\n", g.Digest())
	}
	h.Sum(sum[:0])
	return sum
}

// job describes graphs that were written for the loader.
func (l *loader) job(graphs []*backend.Graph, weights int64) (Job, error) {
	j := Job{Digest: digestOf(graphs), Weights: weights}
	known := make(map[string]Source)
	for _, set := range append(blockSources(l.options, l.layers, l.slots), headSources(l.options, l.heads)) {
		for _, s := range set {
			known[s.name()] = s
		}
	}
	for _, g := range graphs {
		s, found := known[g.Name]
		if !found {
			return Job{}, fmt.Errorf("engine: %w: no source of graph %q", ErrJob, g.Name)
		}
		j.Graphs = append(j.Graphs, s)
	}
	return j, nil
}
