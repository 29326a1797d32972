package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
)

// errNoCache is returned where there is nowhere to keep what is prepared.
var errNoCache = fmt.Errorf("%w: a cache is wanted", ErrOptions)

// Prepared is an image that an Engine will ask for.
type Prepared struct {
	// Key is the image's in the cache, Graphs its name in a [Progress].
	Key, Graphs string
	// Names are its graphs', ascending in their rows.
	Names []string
	// Context is how many past tokens of a sequence they hold; 0 for the head.
	Context int
}

// Prepare compiles every image that an Engine of these arguments can come to
// ask for, at each context it grows to, into the options' cache, and loads
// none: dev may compile for another machine's chip, and what it writes need
// not load on this one.
func Prepare(ctx context.Context, dev backend.Device, m *model.Model, options Options) (list []Prepared, err error) {
	o, err := options.resolve(m.Config())
	if err != nil {
		return nil, err
	}
	if o.Cache == nil {
		return nil, fmt.Errorf("engine: %w", errNoCache)
	}
	heads, err := writeHead(m, o, o.headRows())
	if err != nil {
		return nil, err
	}
	for context := o.contextFor(0); ; context = o.contextFor(context + 1) {
		sets, err := writeBlocks(m, o, context*o.Sequences)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 { // no context changes the head
			sets = append(sets, heads)
		}
		l := newLoader(dev, m.Digest(), o, context*o.Sequences, sets)
		l.layers, l.prepares = m.Config().Layers, true
		l.count(sets)
		for i, set := range sets {
			p := Prepared{Context: context}
			if i == o.Blocks {
				p.Context = 0
			}
			for _, graphs := range l.images(set) {
				p.Key, p.Graphs, p.Names = l.key(graphs), imageName(graphs), graphNames(graphs)
				if err := l.prepare(ctx, graphs); err != nil {
					return nil, err
				}
				list = append(list, p)
			}
		}
		if context == o.Context {
			return list, nil
		}
	}
}

func graphNames(graphs []*backend.Graph) (names []string) {
	for _, g := range graphs {
		names = append(names, g.Name)
	}
	return names
}

// prepare sees to it that the graphs' image is in the cache.
func (l *loader) prepare(ctx context.Context, graphs []*backend.Graph) error {
	r := newReporter(l.options.Progress, l.at, graphs)
	defer r.start()()
	key := l.key(graphs)
	entry, err := l.cache.Get(key)
	if err == nil {
		r.cached.Store(true)
		r.bytes.Store(int64(len(entry.Bytes())))
		err = entry.Close()
	} else if errors.Is(err, imagecache.ErrMiss) {
		err = l.put(ctx, key, graphs, r)
	}
	if err != nil {
		return err
	}
	l.at.Done++
	l.at.WeightsDone += r.weights
	r.done.Store(true)
	return nil
}

// put compiles the graphs into the cache.
func (l *loader) put(ctx context.Context, key string, graphs []*backend.Graph, r *reporter) error {
	if err := l.cache.Reserve(r.weights); err != nil {
		return err
	}
	return l.cache.Put(key, l.label(graphs), func(w io.Writer) error { return l.write(ctx, w, graphs, r) })
}

// preparedApart reports whether a set whose graphs could share an image is in
// the cache as an image each, prepared so on a machine that could load no
// shared one, and not as one.
func (l *loader) preparedApart(set []*backend.Graph) bool {
	if l.cache == nil || len(set) == 1 || l.cache.Has(l.key(set)) {
		return false
	}
	return !slices.ContainsFunc(set, func(g *backend.Graph) bool { return !l.cache.Has(l.key([]*backend.Graph{g})) })
}
