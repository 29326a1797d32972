package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Preview tells what [New] would make and load.
type Preview struct {
	// Rows, Blocks and Context are the options', filled in.
	Rows            []int
	Blocks, Context int
	// Contexts are those that the graphs begin with and grow to, ascending. Each
	// has its own images of the blocks; what follows is of the first.
	Contexts []int
	Images   []PreviewImage
	// Cache and IO are as in [Memory].
	Cache, IO int64
}

// PreviewImage is one image of a Preview.
type PreviewImage struct {
	// Graphs is the image's name in a [Progress].
	Graphs string
	// Weights is the size of its constants, nearly all of an image that a device
	// keeps in the type of the recipe.
	Weights int64
	// Bytes is the size of its file in the cache, 0 when it is not there. Whether
	// the file is sound only loading tells.
	Bytes int64
}

// Look returns what New would make of the same arguments. It reads the model's
// file once from end to end, for its digest, and allocates nothing on dev.
func Look(dev backend.Device, m *model.Model, options Options) (Preview, error) {
	o, err := options.resolve(m.Config())
	if err != nil {
		return Preview{}, err
	}
	o, _ = o.decide(dev.Capabilities())
	first := o.contextFor(0)
	slots := first * o.Sequences
	sets, err := writeBlocks(m, o, slots)
	if err != nil {
		return Preview{}, err
	}
	graphs, err := writeHead(m, o, o.headRows())
	if err != nil {
		return Preview{}, err
	}
	sets = append(sets, graphs)
	sizes := &sizing{Device: dev}
	blocks, err := newMemory(sizes, m.Config(), m.Views(o.Context), o, slots)
	if err == nil {
		_, err = newHeadMemory(sizes, m.Config(), o)
	}
	if err != nil {
		return Preview{}, err
	}
	p := Preview{Rows: o.Rows, Blocks: o.Blocks, Context: o.Context, Contexts: []int{first}, Cache: blocks.cacheBytes, IO: sizes.bytes - blocks.cacheBytes}
	for c := first; c < o.Context; {
		c = o.contextFor(c + 1)
		p.Contexts = append(p.Contexts, c)
	}
	l := newLoader(dev, m.Digest(), o, slots, sets)
	files := make(map[string]int64)
	if o.Cache != nil {
		list, err := o.Cache.List()
		if err != nil {
			return Preview{}, fmt.Errorf("engine: %w", err)
		}
		for _, i := range list {
			if i.Damage == nil {
				files[i.Key] = i.Size
			}
		}
	}
	for _, set := range sets {
		for _, graphs := range l.images(set) {
			p.Images = append(p.Images, PreviewImage{imageName(graphs), constantBytes(graphs), files[l.key(graphs)]})
		}
	}
	return p, nil
}

// sizing is a device whose buffers have no memory; it counts what they take.
type sizing struct {
	backend.Device
	bytes int64
}

func (s *sizing) NewBuffer(size int) (backend.Buffer, error) {
	s.bytes += int64(size)
	return noBuffer{}, nil
}

type noBuffer struct{}

func (noBuffer) Bytes() []byte { return nil }
func (noBuffer) Close() error  { return nil }
