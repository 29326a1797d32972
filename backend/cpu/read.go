package cpu

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
)

// contents is a parsed and valid image.
type contents struct {
	graphs []*backend.Graph
	// constants holds the elements in place. uses maps each graph's tensors to
	// their constants, -1 for other kinds.
	constants []stored
	uses      [][]int
}

type stored struct {
	tensor *backend.Tensor
	bytes  []byte // of the elements
	scales []byte
}

// readImage checks an image: length, checksum, header, places of the constants,
// graphs. A length that the image only claims never allocates memory.
func readImage(image []byte) (*contents, error) {
	text, data, err := split(image)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	c := new(contents)
	for i := range h.Constants {
		s, err := h.Constants[i].locate(data)
		if err != nil {
			return nil, fmt.Errorf("constant %d: %w", i, err)
		}
		c.constants = append(c.constants, s)
	}
	if len(h.Graphs) == 0 {
		return nil, errors.New("no graphs")
	}
	names := make(map[string]bool)
	for i := range h.Graphs {
		g, uses, err := h.Graphs[i].graph(h.Constants)
		if err != nil {
			return nil, fmt.Errorf("graph %q: %w", h.Graphs[i].Name, err)
		}
		if names[g.Name] {
			return nil, fmt.Errorf("two graphs are named %q", g.Name)
		}
		names[g.Name] = true
		c.graphs = append(c.graphs, g)
		c.uses = append(c.uses, uses)
	}
	return c, nil
}

// split returns the header text and the constants of an image with a valid
// checksum.
func split(image []byte) (text, data []byte, err error) {
	if len(image) < preambleSize+sha256.Size {
		return nil, nil, fmt.Errorf("%d bytes: too short", len(image))
	}
	if string(image[:len(magic)]) != magic {
		return nil, nil, errors.New("not an image of the float device")
	}
	if v := binary.LittleEndian.Uint32(image[8:]); v != formatVersion {
		return nil, nil, fmt.Errorf("format %d: want %d", v, formatVersion)
	}
	if n := binary.LittleEndian.Uint64(image[24:]); n != uint64(len(image)) {
		return nil, nil, fmt.Errorf("%d bytes: want %d", len(image), n)
	}
	end := len(image) - sha256.Size
	if sum := sha256.Sum256(image[:end]); string(sum[:]) != string(image[end:]) {
		return nil, nil, errors.New("checksum is wrong")
	}
	size := binary.LittleEndian.Uint64(image[16:])
	if size > maxHeader || size > uint64(end-preambleSize) {
		return nil, nil, fmt.Errorf("header of %d bytes in %d", size, end)
	}
	base := align(preambleSize + int64(size))
	if base > int64(end) {
		return nil, nil, fmt.Errorf("constants start at %d of %d", base, end)
	}
	return image[preambleSize : preambleSize+size], image[base:end], nil
}

// locate finds the elements of a constant.
func (k *constant) locate(data []byte) (stored, error) {
	// Validate checks the graphs' shapes, which must equal this one, so a
	// product that overflows must be found here.
	n := int64(k.Type.Size())
	for _, d := range k.Shape {
		if d <= 0 || n > int64(len(data))/int64(d) {
			return stored{}, fmt.Errorf("shape %v does not fit %d bytes", k.Shape, len(data))
		}
		n *= int64(d)
	}
	t := k.tensor()
	if n == 0 || len(k.Shape) == 0 || t.Encoding.Grain == backend.PerBlock && t.Encoding.Block < 1 {
		return stored{}, fmt.Errorf("%v%v with encoding %+v", k.Type, k.Shape, t.Encoding)
	}
	at, end := scalesAt(t)
	if k.Offset < 0 || k.Offset%alignment != 0 || k.Offset > int64(len(data)-end) {
		return stored{}, fmt.Errorf("%v%v at %d of %d bytes", k.Type, k.Shape, k.Offset, len(data))
	}
	bytes := data[k.Offset:][:end]
	return stored{t, bytes[:n], bytes[at:]}, nil
}

// errStored is returned by the Fill of constants of a graph from an image,
// whose elements are in the image.
var errStored = errors.New("elements are in the image")

// graph rebuilds and validates a graph.
func (r *graphRecord) graph(constants []constant) (*backend.Graph, []int, error) {
	g := &backend.Graph{Name: r.Name}
	uses := make([]int, len(r.Tensors))
	for i, t := range r.Tensors {
		uses[i] = -1
		tensor := backend.Tensor{Name: t.Name, Kind: t.Kind, Type: t.Type, Shape: t.Shape, Encoding: encodingOf(t.Encoding)}
		if t.Kind == backend.Constant {
			if t.Constant < 0 || t.Constant >= len(constants) {
				return nil, nil, fmt.Errorf("tensor %q is constant %d of %d", t.Name, t.Constant, len(constants))
			}
			k := &constants[t.Constant]
			if k.Type != t.Type || !slices.Equal(k.Shape, t.Shape) || encodingOf(k.Encoding) != tensor.Encoding {
				return nil, nil, fmt.Errorf("tensor %q is %v%v, its constant %v%v", t.Name, t.Type, t.Shape, k.Type, k.Shape)
			}
			uses[i] = t.Constant
			tensor.Values = backend.Values{ID: k.ID, Fill: func([]byte) error { return errStored }}
			if grain := tensor.Encoding.Grain; grain != backend.PerTensor {
				tensor.Values = backend.Values{ID: k.ID, FillScaled: func([]byte, []backend.ScaleOffset) error { return errStored }}
			}
		}
		g.Tensors = append(g.Tensors, tensor)
	}
	for _, n := range r.Nodes {
		node := backend.Node{Name: n.Name, Op: n.Op, Inputs: n.Inputs, Outputs: n.Outputs}
		for _, p := range n.Params {
			param, err := p.param()
			if err != nil {
				return nil, nil, fmt.Errorf("node %q: %w", n.Name, err)
			}
			node.Params = append(node.Params, param)
		}
		if kernels[n.Op] == nil {
			return nil, nil, fmt.Errorf("node %q (%s): %w", n.Name, n.Op, errors.ErrUnsupported)
		}
		g.Nodes = append(g.Nodes, node)
	}
	return g, uses, g.Validate()
}
