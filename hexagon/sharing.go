package hexagon

import (
	"fmt"
	"sync"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// answer turns a probe into a question that is asked once.
func (d *Device) answer(what string, probe func() error) func() bool {
	return sync.OnceValue(func() bool {
		err := probe()
		if err != nil {
			d.options.Logger.Debug("the library does not "+what, "reason", err)
		}
		return err == nil
	})
}

// probeSide is the width and height of the constant that the probe shares. The
// vendor's compiler keeps small constants outside the shared section, and an
// image without one would load everywhere.
const probeSide = 64

// sharesConstants finds out whether graphs of one context hold equal weights
// once, in an image that this library loads: by doing it. The vendor's x86-64
// library compiles such images, claims the capability and then refuses to load
// them (1000), and a phone's may refuse to compile them; any failure means no.
func (d *Device) sharesConstants() error {
	return d.probe(qnn.ContextOptions{WeightSharing: true}, qnn.ContextOptions{})
}

// swapsGraphs finds out whether the library exchanges graphs of an image by
// itself: by loading one so. The vendor's x86-64 library claims the capability
// and refuses the call (1000).
func (d *Device) swapsGraphs() error {
	return d.probe(qnn.ContextOptions{}, swapOptions(1<<20, 2))
}

// swapOptions are those of a load whose graphs come and go: the image stays where
// it is, and the hint has room for one of them.
func swapOptions(sizeBytes, graphs int) qnn.ContextOptions {
	return qnn.ContextOptions{Persistent: true, MemoryHintMB: uint64(max(sizeBytes/max(graphs, 1)>>20, 1))}
}

// probe compiles an image of two graphs that could share their weights and loads
// it.
func (d *Device) probe(build, load qnn.ContextOptions) (err error) {
	c, err := d.backend.NewContext(d.device, build)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	weights := make([]byte, 2*probeSide*probeSide)
	for i := range weights {
		weights[i] = byte(i*7) & 0x3b // small float16 numbers, all different rows
	}
	for rows := range 2 {
		if err := probeGraph(c, fmt.Sprintf("rows%d", rows+1), uint32(rows+1), weights); err != nil {
			return err
		}
	}
	size, err := c.BinarySize()
	if err != nil {
		return err
	}
	image, err := c.Binary(aligned(int(size)))
	if err != nil {
		return err
	}
	loaded, err := d.backend.LoadContext(d.device, image, load, nil)
	if err != nil {
		return err
	}
	return loaded.Close()
}

// probeGraph builds y = x·wᵀ.
func probeGraph(c *qnn.Context, name string, rows uint32, weights []byte) error {
	g, err := c.NewGraph(name, qnn.GraphOptions{Optimization: 1})
	if err != nil {
		return err
	}
	x := qnn.Tensor{Name: "x", Kind: qnn.AppWrite, Type: qnn.Float16, Dims: []uint32{rows, probeSide}}
	w := qnn.Tensor{Name: "w", Kind: qnn.Static, Type: qnn.Float16, Dims: []uint32{probeSide, probeSide}, Data: weights}
	y := qnn.Tensor{Name: "y", Kind: qnn.AppRead, Type: qnn.Float16, Dims: []uint32{rows, probeSide}}
	for _, t := range []*qnn.Tensor{&x, &w, &y} {
		if err := g.CreateTensor(t); err != nil {
			return err
		}
	}
	err = g.AddNode(&qnn.Op{Name: "fc", Type: "FullyConnected", Inputs: []*qnn.Tensor{&x, &w}, Outputs: []*qnn.Tensor{&y}})
	if err != nil {
		return err
	}
	return g.Finalize(nil)
}
