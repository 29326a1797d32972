package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// imageVersion is part of every key: raise it when an image of equal graphs
// and device means something else than before.
const imageVersion = 1

// loader makes programs of graphs.
type loader struct {
	dev     backend.Device
	options Options
	total   int // images in all
	done    int
	// cache is the options', or nil once it could not keep an image: trying
	// again would compile every image twice.
	cache *imagecache.Store
}

// loaded is a program of one graph with the image that it runs on.
type loaded struct {
	graph     string
	program   backend.Program
	signature backend.Signature
	entry     *imagecache.Entry // nil for an image in ordinary memory
}

// close frees program and image, in this order.
func (l *loaded) close() error {
	err := l.program.Close()
	if l.entry != nil {
		err = errors.Join(err, l.entry.Close())
	}
	return err
}

// load takes the graph's image from the cache, or compiles it, and loads it.
func (l *loader) load(ctx context.Context, g *backend.Graph) (*loaded, error) {
	r := reporter{report: l.options.Progress, progress: Progress{Done: l.done, Total: l.total, Graph: g.Name}}
	defer r.start()()
	key := l.key(g)
	if l.cache != nil {
		p, err := l.fromCache(ctx, key, g, &r)
		if !errors.Is(err, imagecache.ErrMiss) && !errors.Is(err, backend.ErrImage) {
			return l.finish(p, err, &r)
		}
		r.cached.Store(false)
	}
	p, err := l.compile(ctx, key, g, &r)
	return l.finish(p, err, &r)
}

func (l *loader) finish(p *loaded, err error, r *reporter) (*loaded, error) {
	if err != nil {
		return nil, err
	}
	l.done++
	r.done.Store(true)
	return p, nil
}

// key identifies everything that decides whether an image is valid.
func (l *loader) key(g *backend.Graph) string {
	digest := g.Digest()
	h := sha256.New()
	fmt.Fprintf(h, "sdnpu image %d\n%x\n%s", imageVersion, digest, l.dev.Capabilities().Fingerprint)
	return hex.EncodeToString(h.Sum(nil))
}

// fromCache returns [imagecache.ErrMiss] or [backend.ErrImage] where compiling
// helps.
func (l *loader) fromCache(ctx context.Context, key string, g *backend.Graph, r *reporter) (*loaded, error) {
	entry, err := l.cache.Get(key)
	if err != nil {
		return nil, err
	}
	r.cached.Store(true)
	r.bytes.Store(int64(len(entry.Bytes())))
	p, err := l.open(ctx, g, entry.Bytes())
	if err != nil {
		if errors.Is(err, backend.ErrImage) {
			l.options.Logger.Warn("an image from the cache is compiled again", "graph", g.Name, "reason", err)
		}
		return nil, errors.Join(err, entry.Close())
	}
	p.entry = entry
	return p, nil
}

// compile makes the image, in the cache if that works and in memory otherwise.
func (l *loader) compile(ctx context.Context, key string, g *backend.Graph, r *reporter) (*loaded, error) {
	write := func(w io.Writer) error {
		r.bytes.Store(0)
		if err := l.dev.Compile(ctx, io.MultiWriter(w, countBytes{&r.bytes}), g); err != nil {
			return fmt.Errorf("engine: compile %s: %w", g.Name, err)
		}
		return nil
	}
	if l.cache != nil {
		p, err := l.compileToCache(ctx, key, g, write)
		if !errors.Is(err, imagecache.ErrStore) {
			return p, err
		}
		l.options.Logger.Warn("going on without the image cache: every start will compile", "reason", err)
		l.cache = nil
	}
	var image bytes.Buffer
	if err := write(&image); err != nil {
		return nil, err
	}
	return l.open(ctx, g, image.Bytes())
}

func (l *loader) compileToCache(ctx context.Context, key string, g *backend.Graph, write func(io.Writer) error) (*loaded, error) {
	if err := l.cache.Put(key, write); err != nil {
		return nil, err
	}
	entry, err := l.cache.Get(key)
	if err != nil { // written a moment ago, and gone: the disk lies
		return nil, fmt.Errorf("engine: %w: %w", imagecache.ErrStore, err)
	}
	p, err := l.open(ctx, g, entry.Bytes())
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}
	p.entry = entry
	return p, nil
}

// open loads an image and checks that it binds what the graph says.
func (l *loader) open(ctx context.Context, g *backend.Graph, image []byte) (*loaded, error) {
	program, err := l.dev.Load(ctx, backend.Image{Bytes: image})
	if err != nil {
		return nil, fmt.Errorf("engine: load %s: %w", g.Name, err)
	}
	p := &loaded{graph: g.Name, program: program}
	p.signature, err = program.Signature(g.Name)
	if errors.Is(err, backend.ErrNoGraph) {
		err = fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	want := g.Signature()
	if err == nil && (!samePorts(want.Inputs, p.signature.Inputs) || !samePorts(want.Outputs, p.signature.Outputs)) {
		err = fmt.Errorf("%w: its ports are not the graph's", backend.ErrImage)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: load %s: %w", g.Name, err), program.Close())
	}
	return p, nil
}

// samePorts compares ports in whatever order: they are bound by name.
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

// reporter tells of the work on one image. Device calls last long and say
// nothing meanwhile, hence a goroutine with a clock.
type reporter struct {
	report   func(Progress)
	progress Progress // as it stood when the work began
	bytes    atomic.Int64
	cached   atomic.Bool
	done     atomic.Bool
}

// start reports, goes on every second, and returns what ends it.
func (r *reporter) start() (stop func()) {
	r.report(r.progress)
	began := time.Now()
	tell := func() {
		p := r.progress
		p.Bytes, p.Cached, p.Elapsed = r.bytes.Load(), r.cached.Load(), time.Since(began)
		if r.done.Load() {
			p.Done++
		}
		r.report(p)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				tell()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		if r.done.Load() {
			tell()
		}
	}
}

// countBytes is a writer that only counts.
type countBytes struct{ n *atomic.Int64 }

func (c countBytes) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
