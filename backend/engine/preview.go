package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/buffers"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Preview describes what [New] would compile and load.
type Preview struct {
	// Rows, Blocks and Context come from the options, with defaults filled in.
	Rows            []int
	Blocks, Context int
	// Contexts are the context tiers, ascending. Each has its own images of the blocks. The fields
	// below describe the first tier.
	Contexts []int
	Images   []PreviewImage
	// Cache and IO are as in [Memory].
	Cache, IO int64
}

// PreviewImage is one image of a [Preview].
type PreviewImage struct {
	// Graphs is the image's name in a [Progress].
	Graphs string
	// Weights is the size of its constants. They are nearly all of the image if the
	// device keeps them in the type of the recipe.
	Weights int64
	// Bytes is the size of the image's file in the cache, or zero if there is none. Only
	// loading shows whether the file is sound.
	Bytes int64
}

// Look returns what New would compile and load with the same arguments, even if New
// would then reject the plan on this device. It reads the model's file once from end to
// end, for its digest, and allocates nothing on dev.
func Look(dev backend.Device, m *model.Model, options Options) (Preview, error) {
	device := dev.Capabilities()
	o, err := options.resolve(m.Config(), &device)
	if err != nil {
		return Preview{}, err
	}
	c, first := o.images(), o.contextFor(0)
	slots := first * o.Sequences
	sets, err := images.WriteBlocks(m, c, slots)
	if err != nil {
		return Preview{}, err
	}
	graphs, err := images.WriteHead(m, c)
	if err != nil {
		return Preview{}, err
	}
	sets = append(sets, graphs)
	sizes := &sizing{Device: dev}
	blocks, err := buffers.New(sizes, o.buffers(m, first))
	if err == nil {
		_, err = newHeadMemory(sizes, m.Config(), &o)
	}
	if err != nil {
		return Preview{}, err
	}
	p := Preview{
		Rows:     o.Rows,
		Blocks:   o.Blocks,
		Context:  o.Context,
		Contexts: o.contexts(),
		Cache:    blocks.Cache().SizeBytes(),
		IO:       sizes.bytes - blocks.Cache().SizeBytes(),
	}
	l := images.NewLoader(dev, m, c, slots, sets)
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
		for _, graphs := range l.Images(set) {
			p.Images = append(p.Images, PreviewImage{images.Name(graphs), images.ConstantBytes(graphs), files[l.Key(graphs)]})
		}
	}
	return p, nil
}

// sizing is a device that allocates no memory for buffers and counts their sizes.
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
