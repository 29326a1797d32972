package hexagon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// A matrix whose blocks have multiples ([backend.Encoding.Multiplied]) is what
// the vendor calls LPBQ: 4-bit integers, a 4-bit scale for each block, a float for
// each output. The NPU multiplies it in Conv2d: its MatMul takes several times as
// long from 32 rows on, and its FullyConnected refuses such a matrix or computes
// nonsense, as the sizes are. So the matrix is stored [1,1,K,N], and rows become
// the pixels of an image.

// errMultiples is returned for elements that no multiples make.
var errMultiples = errors.New("elements are no multiples of small integers")

// multiplied makes QNN's form of a matrix: its integers in the low bits of bytes,
// (input, output), and its quantization. steps are the rows' scales.
func multiplied(t *backend.Tensor, elements []byte, steps []backend.Step) ([]byte, *qnn.Quantization, error) {
	outputs, inputs, block := t.Shape[0], t.Shape[1], t.Encoding.Block
	data := make([]byte, len(elements))
	q := &qnn.Quantization{
		Encoding: qnn.BlockwiseExpansion, Axis: 3, BlocksPerAxis: uint32(inputs / block), BlockScaleBits: 4,
		BlockScales: make([]uint8, 0, len(elements)/block),
	}
	for output := range outputs {
		q.Scales = append(q.Scales, steps[output].Scale)
		row := elements[output*inputs:][:inputs]
		for at := 0; at < inputs; at += block {
			m, err := multiple(row[at:at+block], t.Encoding.Bits)
			if err != nil {
				return nil, nil, fmt.Errorf("output %d, inputs from %d: %w", output, at, err)
			}
			q.BlockScales = append(q.BlockScales, uint8(m))
			for i, c := range row[at : at+block] {
				data[(at+i)*outputs+output] = byte(int8(c) / m)
			}
		}
	}
	return data, q, nil
}

// multiple is the least number that makes a block of integers of so many bits:
// which of several it is changes no product.
func multiple(block []byte, bits int) (int8, error) {
	low, high := int8(0), int8(0)
	for _, c := range block {
		low, high = min(low, int8(c)), max(high, int8(c))
	}
	half := 1 << (bits - 1)
next:
	for m := 1; m <= backend.MostMultiple; m++ {
		if int(low) < -half*m || int(high) > (half-1)*m {
			continue
		}
		for _, c := range block {
			if int(int8(c))%m != 0 {
				continue next
			}
		}
		return int8(m), nil
	}
	return 0, fmt.Errorf("%w: from %d to %d", errMultiples, low, high)
}

// convolve writes a FullyConnected whose matrix is [multiplied].
func (l *lowering) convolve(n *backend.Node) error {
	x, err := l.image(n.Inputs[0])
	if err != nil {
		return err
	}
	y := &l.tensors[n.Outputs[0]]
	image := asImage(y)
	stride := &qnn.Tensor{
		Name: n.Name + ".stride", Kind: qnn.Static, Type: qnn.Uint32, Dims: []uint32{2},
		Data: binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 1), 1),
	}
	pad := &qnn.Tensor{Name: n.Name + ".pad_amount", Kind: qnn.Static, Type: qnn.Uint32, Dims: []uint32{2, 2}, Data: make([]byte, 16)}
	for _, t := range []*qnn.Tensor{image, stride, pad} {
		if err := l.graph.CreateTensor(t); err != nil {
			return err
		}
	}
	op := &qnn.Op{
		Name: n.Name, Type: "Conv2d", Inputs: []*qnn.Tensor{x}, Outputs: []*qnn.Tensor{image},
		Params: []qnn.Param{{Name: "stride", Tensor: stride}, {Name: "pad_amount", Tensor: pad}},
	}
	for _, id := range n.Inputs[1:] {
		op.Inputs = append(op.Inputs, &l.tensors[id])
	}
	if err := l.add(op); err != nil {
		return err
	}
	return l.reshape(image, y)
}

// image is a tensor of [M,K] as [1,1,M,K], made once.
func (l *lowering) image(id backend.TensorID) (*qnn.Tensor, error) {
	if made := l.images[id]; made != nil {
		return made, nil
	}
	x := &l.tensors[id]
	image := asImage(x)
	if err := l.graph.CreateTensor(image); err != nil {
		return nil, err
	}
	if l.images == nil {
		l.images = make(map[backend.TensorID]*qnn.Tensor)
	}
	l.images[id] = image
	return image, l.reshape(x, image)
}

// asImage declares what is to hold the elements of a tensor of two dimensions.
func asImage(t *qnn.Tensor) *qnn.Tensor {
	return &qnn.Tensor{
		Name: t.Name + ".image", Kind: qnn.Native, Type: t.Type, Dims: slices.Concat([]uint32{1, 1}, t.Dims), Quantization: t.Quantization,
	}
}

func (l *lowering) reshape(from, to *qnn.Tensor) error {
	return l.add(&qnn.Op{Name: to.Name + ".reshape", Type: "Reshape", Inputs: []*qnn.Tensor{from}, Outputs: []*qnn.Tensor{to}})
}
