package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// imageVersion is part of every key: raise it when an image of equal graphs
// and device means something else than before.
const imageVersion = 2

// loader makes programs of graphs.
type loader struct {
	dev     backend.Device
	options Options
	digest  string // of the model's file
	layers  int    // of the model
	slots   int    // past slots of the graphs
	heads   []int  // widths of the head
	// shares tells that graphs of one set go into one image.
	shares bool
	// prepares tells that images that share are wanted where others would do.
	prepares bool
	// at is where the work stands.
	at Progress
	// cache is the options', or nil once it could not keep an image: trying
	// again would compile every image twice.
	cache *imagecache.Store
}

// newLoader returns a loader of sets of graphs; those of one set hold mostly
// equal constants.
func newLoader(dev backend.Device, digest string, o Options, slots int, sets [][]*backend.Graph) *loader {
	l := &loader{dev: dev, digest: digest, options: o, slots: slots, heads: o.headRows(), shares: !o.apart() && (o.swaps || dev.Capabilities().SharesConstants), cache: o.Cache}
	l.count(sets)
	return l
}

// count is how much work the sets are.
func (l *loader) count(sets [][]*backend.Graph) {
	l.at = Progress{}
	for _, set := range sets {
		for _, graphs := range l.images(set) {
			l.at.Total++
			l.at.Weights += constantBytes(graphs)
		}
	}
}

// quiet is a loader of the same images for loads that nobody watches.
func (l *loader) quiet() *loader {
	q := *l
	q.options.Progress = func(Progress) {}
	return &q
}

// images says which graphs of a set share an image.
func (l *loader) images(set []*backend.Graph) [][]*backend.Graph {
	if l.shares && (l.prepares || !l.preparedApart(set)) {
		return [][]*backend.Graph{set}
	}
	apart := make([][]*backend.Graph, len(set))
	for i := range set {
		apart[i] = set[i : i+1]
	}
	return apart
}

// constantBytes is the size of the graphs' distinct constants, which is nearly
// all of an image that holds them once.
func constantBytes(graphs []*backend.Graph) (size int64) {
	known := make(map[string]bool)
	for _, g := range graphs {
		for i := range g.Tensors {
			t := &g.Tensors[i]
			if id := constantID(t); t.Kind == backend.Constant && !known[id] {
				known[id] = true
				size += int64(t.SizeBytes())
			}
		}
	}
	return size
}

// constantID is equal for constants that a device may store once.
func constantID(t *backend.Tensor) string {
	return fmt.Sprintf("%v %v %v %s", t.Type, t.Shape, t.Encoding, t.Values.ID)
}

// image is what one Load gave, with the bytes that it runs on.
type image struct {
	program backend.Program // nil while a form is not resident
	bytes   []byte
	entry   *imagecache.Entry // nil for an image in ordinary memory
	graphs  []*loaded         // as they were given to the loader
	sources []*backend.Graph
}

// loaded is a graph of an image.
type loaded struct {
	graph     string
	program   backend.Program
	signature backend.Signature
}

// close frees program and image, in this order.
func (i *image) close() error {
	var err error
	if i.program != nil {
		err = i.program.Close()
		i.program = nil
	}
	if i.entry != nil {
		err = errors.Join(err, i.entry.Close())
		i.entry = nil
	}
	return err
}

// reopen loads an image whose program was freed.
func (i *image) reopen(ctx context.Context, l *loader) error {
	again, err := l.open(ctx, i.sources, i.bytes)
	if err != nil {
		return err
	}
	i.program, i.graphs = again.program, again.graphs
	return nil
}

// load brings a set of graphs into the device, in as many images as it takes.
// The images are the caller's to close, after an error too.
func (l *loader) load(ctx context.Context, set []*backend.Graph) (graphs []*loaded, images []*image, err error) {
	for _, part := range l.images(set) {
		i, err := l.loadImage(ctx, part)
		if err != nil {
			return nil, images, err
		}
		images, graphs = append(images, i), append(graphs, i.graphs...)
	}
	return graphs, images, nil
}

// loadImage takes the graphs' image from the cache, or compiles it, and loads
// it.
func (l *loader) loadImage(ctx context.Context, graphs []*backend.Graph) (*image, error) {
	r := newReporter(l.options.Progress, l.at, graphs)
	defer r.start()()
	key, miss := l.key(graphs), error(nil)
	if l.cache != nil {
		i, err := l.fromCache(ctx, key, graphs, r)
		if !errors.Is(err, imagecache.ErrMiss) && !errors.Is(err, backend.ErrImage) {
			return l.finish(i, err, r)
		}
		miss = err
		r.cached.Store(false)
	}
	i, err := l.compile(ctx, key, graphs, r, errors.Is(miss, imagecache.ErrMiss))
	return l.finish(i, err, r)
}

func (l *loader) finish(i *image, err error, r *reporter) (*image, error) {
	if err != nil {
		return nil, err
	}
	l.at.Done++
	l.at.WeightsDone += r.weights
	r.done.Store(true)
	return i, nil
}

// key identifies everything that decides whether an image is valid.
func (l *loader) key(graphs []*backend.Graph) string {
	h := sha256.New()
	fmt.Fprintf(h, "sdnpu image %d\n", imageVersion)
	for _, g := range graphs {
		fmt.Fprintf(h, "%x\n", g.Digest())
	}
	io.WriteString(h, l.dev.Capabilities().Fingerprint) //nolint:errcheck // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// fromCache returns [imagecache.ErrMiss] or [backend.ErrImage] where compiling
// helps.
func (l *loader) fromCache(ctx context.Context, key string, graphs []*backend.Graph, r *reporter) (*image, error) {
	entry, err := l.cache.Get(key)
	if err != nil {
		return nil, err
	}
	r.cached.Store(true)
	r.bytes.Store(int64(len(entry.Bytes())))
	i, err := l.openEntry(ctx, graphs, entry)
	if errors.Is(err, backend.ErrImage) {
		l.options.Logger.Warn("an image from the cache is compiled again", "graph", r.at.Graph, "reason", err)
	}
	return i, err
}

// compile makes the image, in the cache if that works and in memory otherwise.
// With look, the cache is asked again once this process alone may make it.
func (l *loader) compile(ctx context.Context, key string, graphs []*backend.Graph, r *reporter, look bool) (*image, error) {
	if l.cache != nil {
		i, err := l.compileToCache(ctx, key, graphs, r, look)
		if !errors.Is(err, imagecache.ErrStore) {
			return i, err
		}
		l.options.Logger.Warn("going on without the image cache: every start will compile", "reason", err,
			"remedy", "give the cache a folder that can be written and has room for the images, or turn it off")
		l.cache = nil
	}
	var image bytes.Buffer
	if err := l.write(ctx, &image, graphs, r); err != nil {
		return nil, err
	}
	return l.open(ctx, graphs, image.Bytes())
}

// write compiles into w.
func (l *loader) write(ctx context.Context, w io.Writer, graphs []*backend.Graph, r *reporter) error {
	// A device takes buffers as large as an image; what is left of them must not
	// wait for the next collection, which may be gigabytes away.
	defer debug.FreeOSMemory()
	r.bytes.Store(0)
	r.filled.Store(0)
	if err := l.compileGraphs(ctx, io.MultiWriter(w, countBytes{&r.bytes}), graphs, r); err != nil {
		return fmt.Errorf("engine: compile %s: %w", r.at.Graph, err)
	}
	return nil
}

// compileGraphs compiles here or where the options say.
func (l *loader) compileGraphs(ctx context.Context, w io.Writer, graphs []*backend.Graph, r *reporter) error {
	filled := func(bytes int) { r.filled.Add(int64(bytes)) }
	if l.options.Compile == nil {
		return l.dev.Compile(ctx, w, counted(ctx, graphs, filled)...)
	}
	job, err := l.job(graphs, r.weights)
	if err != nil {
		return err
	}
	return l.options.Compile(ctx, w, job, filled)
}

// compileToCache lets one process of many compile.
func (l *loader) compileToCache(ctx context.Context, key string, graphs []*backend.Graph, r *reporter, look bool) (*image, error) {
	release, err := l.cache.Lock(ctx, key, func() { r.waiting.Store(true) })
	if err != nil {
		return nil, err
	}
	defer release()
	r.waiting.Store(false)
	if look {
		i, err := l.fromCache(ctx, key, graphs, r)
		if !errors.Is(err, imagecache.ErrMiss) && !errors.Is(err, backend.ErrImage) {
			return i, err
		}
		r.cached.Store(false)
	}
	if err := l.put(ctx, key, graphs, r); err != nil {
		return nil, err
	}
	entry, err := l.cache.Get(key)
	if err != nil { // written a moment ago, and gone: the disk lies
		return nil, fmt.Errorf("engine: %w: %w", imagecache.ErrStore, err)
	}
	return l.openEntry(ctx, graphs, entry)
}

// label says to people what an image in the cache is.
func (l *loader) label(graphs []*backend.Graph) imagecache.Label {
	o, c := l.options, l.dev.Capabilities()
	return imagecache.Label{
		"model": o.Name, "digest": l.digest, "graphs": imageName(graphs), "recipe": o.Recipe.Name,
		"rows": strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Rows), " ", ","), "[]"), "context": fmt.Sprint(l.slots),
		"device": c.Name, "fingerprint": c.Fingerprint,
	}
}

// openEntry loads an image of the cache; a failure gives the entry back.
func (l *loader) openEntry(ctx context.Context, graphs []*backend.Graph, entry *imagecache.Entry) (*image, error) {
	i, err := l.open(ctx, graphs, entry.Bytes())
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}
	i.entry = entry
	return i, nil
}

// open loads an image and checks that it binds what the graphs say.
func (l *loader) open(ctx context.Context, graphs []*backend.Graph, bytes []byte) (*image, error) {
	program, err := l.dev.Load(ctx, backend.Image{Bytes: bytes, Swap: l.options.swaps && len(graphs) > 1})
	if err != nil {
		return nil, fmt.Errorf("engine: load %s: %w", imageName(graphs), err)
	}
	i := &image{program: program, bytes: bytes, sources: graphs}
	for _, g := range graphs {
		s, err := checkedSignature(program, g)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("engine: load %s: %w", g.Name, err), program.Close())
		}
		i.graphs = append(i.graphs, &loaded{graph: g.Name, program: program, signature: s})
	}
	return i, nil
}

// checkedSignature is what the program binds for a graph, which must be what
// the graph says.
func checkedSignature(p backend.Program, g *backend.Graph) (backend.Signature, error) {
	got, err := p.Signature(g.Name)
	if errors.Is(err, backend.ErrNoGraph) {
		err = fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	want := g.Signature()
	if err == nil && (!samePorts(want.Inputs, got.Inputs) || !samePorts(want.Outputs, got.Outputs)) {
		err = fmt.Errorf("%w: its ports are not the graph's", backend.ErrImage)
	}
	return got, err
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
