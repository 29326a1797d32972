package hexagon

import (
	"fmt"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// probeSide is the width and height of the constant that the probe shares. The
// vendor's compiler keeps small constants outside the shared section, and an
// image without one would load everywhere.
const probeSide = 64

// sharesConstants finds out whether graphs of one context hold equal weights
// once, in an image that this library loads: by doing it. The vendor's x86-64
// library compiles such images, claims the capability and then refuses to load
// them (1000), and a phone's may refuse to compile them; any failure means no.
func (d *Device) sharesConstants() (err error) {
	options := qnn.ContextOptions{WeightSharing: true}
	c, err := d.backend.NewContext(d.device, options)
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
	image, err := c.Binary(make([]byte, size))
	if err != nil {
		return err
	}
	loaded, err := d.backend.LoadContext(d.device, image, qnn.ContextOptions{}, nil)
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
