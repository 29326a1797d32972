package qnn

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Bounds of what an image may be said to hold.
const (
	imageGraphLimit  = 1 << 10
	imageTensorLimit = 1 << 14 // of all graphs together
	imageNameLimit   = 1 << 12
	imageTextLimit   = 1 << 20 // of all names together
)

// ErrBinaryInfo is returned when a description of an image cannot be right.
var ErrBinaryInfo = errors.New("description of the image makes no sense")

// BinaryInfo is what an image holds.
type BinaryInfo struct {
	Backend    uint32  // the provider number of the library that wrote it
	BuildID    string  // of that library
	Core       Version // of its interface
	BackendAPI Version
	Blob       Version // of the image's format
	BlobBytes  uint64
	SoC        uint32 // chip; 0 where the description is older than version 3
	Graphs     []GraphInfo
}

// GraphInfo is a graph of an image.
type GraphInfo struct {
	Name string
	// Inputs and Outputs carry the IDs that runs need. Of quantizations only
	// those with one scale are read.
	Inputs, Outputs []Tensor
	// The rest is the Hexagon library's, zero where it is not known.
	SpillBytes, VTCMBytes, ConstantBytes, SharedBytes, HVXThreads uint64
	Optimization                                                  uint32
}

// memory is where a description lies: that of this process, or a test's. read
// fills to from an address or fails.
type memory interface {
	read(address uintptr, to []byte) error
}

// ownMemory is this process's: only NULL can be told from a good address.
type ownMemory struct{}

func (ownMemory) read(address uintptr, to []byte) error {
	if address == 0 || address > math.MaxUint-uintptr(len(to)) {
		return fmt.Errorf("address %#x: %w", address, ErrBinaryInfo)
	}
	copy(to, unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), len(to)))
	return nil
}

// fetch copies a struct without Go pointers.
func fetch[T any](m memory, address uintptr) (v T, err error) {
	err = m.read(address, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
	return v, err
}

// infoReader counts tensors and letters, of which many may be said to lie in
// one place.
type infoReader struct {
	memory
	tensors, letters int
}

// text reads a C string of at most imageNameLimit bytes.
func (r *infoReader) text(address uintptr) (string, error) {
	if address == 0 {
		return "", nil
	}
	var s []byte
	for len(s) < imageNameLimit && r.letters < imageTextLimit {
		r.letters++
		c, err := fetch[byte](r, address+uintptr(len(s)))
		if err != nil {
			return "", err
		}
		if c == 0 {
			return string(s), nil
		}
		s = append(s, c)
	}
	return "", fmt.Errorf("a name without an end: %w", ErrBinaryInfo)
}

// readBinaryInfo reads the description at an address.
func readBinaryInfo(m memory, address uintptr) (*BinaryInfo, error) {
	r := &infoReader{memory: m}
	info, err := r.info(address)
	if err != nil {
		return nil, fmt.Errorf("qnn: binary info: %w", err)
	}
	return info, nil
}

func (r *infoReader) info(address uintptr) (*BinaryInfo, error) {
	head, err := fetch[cBinaryInfo](r, address)
	if err != nil {
		return nil, err
	}
	info := &BinaryInfo{Backend: head.backend, Core: head.core.version(), BackendAPI: head.htp.version()}
	if info.BuildID, err = r.text(head.build); err != nil {
		return nil, err
	}
	var n uint32
	var graphs uintptr
	switch head.version {
	case 1, 2:
		body, err := fetch[cBinaryInfoV2](r, address)
		if err != nil {
			return nil, err
		}
		info.Blob, info.BlobBytes, n, graphs = body.blobVersion.version(), body.blobSize, body.numGraphs, body.graphs
	case 3:
		body, err := fetch[cBinaryInfoV3](r, address)
		if err != nil {
			return nil, err
		}
		info.Blob, info.BlobBytes, n, graphs = body.blobVersion.version(), body.blobSize, body.numGraphs, body.graphs
		info.SoC = body.soc
	default:
		return nil, fmt.Errorf("version %d: %w", head.version, ErrVersion)
	}
	if n > imageGraphLimit {
		return nil, fmt.Errorf("%d graphs: %w", n, ErrBinaryInfo)
	}
	for i := range uintptr(n) {
		g, err := r.graph(graphs + i*unsafe.Sizeof(cGraphInfo{}))
		if err != nil {
			return nil, fmt.Errorf("graph %d: %w", i, err)
		}
		info.Graphs = append(info.Graphs, *g)
	}
	return info, nil
}

func (r *infoReader) graph(address uintptr) (*GraphInfo, error) {
	c, err := fetch[cGraphInfo](r, address)
	if err != nil {
		return nil, err
	}
	if c.version < 1 || c.version > 3 {
		return nil, fmt.Errorf("version %d: %w", c.version, ErrVersion)
	}
	g := &GraphInfo{}
	if g.Name, err = r.text(c.name); err != nil {
		return nil, err
	}
	if g.Inputs, err = r.list(c.inputs, c.numInputs); err != nil {
		return nil, fmt.Errorf("%s: inputs: %w", g.Name, err)
	}
	if g.Outputs, err = r.list(c.outputs, c.numOutputs); err != nil {
		return nil, fmt.Errorf("%s: outputs: %w", g.Name, err)
	}
	if c.version == 3 && c.blob != 0 {
		err = r.blob(g, c.blob, uintptr(c.blobSize))
	}
	return g, err
}

// blob reads as much of the Hexagon library's part as there is.
func (r *infoReader) blob(g *GraphInfo, address, size uintptr) error {
	var c cGraphBlob
	whole := unsafe.Slice((*byte)(unsafe.Pointer(&c)), min(size, unsafe.Sizeof(c)))
	if size < unsafe.Offsetof(c.version2) {
		return nil
	}
	if err := r.read(address, whole); err != nil {
		return err
	}
	if c.version != 1 {
		return nil
	}
	g.SpillBytes, g.VTCMBytes, g.Optimization, g.HVXThreads = c.spill, uint64(c.vtcm), c.level, c.hvx
	if size >= unsafe.Sizeof(c) && c.version2 == 2 {
		g.ConstantBytes, g.SharedBytes = c.constants, c.shared
	}
	return nil
}

func (r *infoReader) list(address uintptr, n uint32) ([]Tensor, error) {
	if r.tensors += int(min(n, imageTensorLimit+1)); r.tensors > imageTensorLimit {
		return nil, fmt.Errorf("%d tensors: %w", n, ErrBinaryInfo)
	}
	var tensors []Tensor
	for i := range uintptr(n) {
		t, err := r.tensor(address + i*unsafe.Sizeof(cTensorImage{}))
		if err != nil {
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
		tensors = append(tensors, *t)
	}
	return tensors, nil
}

func (r *infoReader) tensor(address uintptr) (*Tensor, error) {
	c, err := fetch[cTensorImage](r, address)
	if err != nil {
		return nil, err
	}
	if (c.version != 1 && c.version != 2) || c.rank > maxRank {
		return nil, fmt.Errorf("version %d, rank %d: %w", c.version, c.rank, ErrBinaryInfo)
	}
	t := &Tensor{ID: c.id, Kind: TensorKind(c.kind), Type: DataType(c.dataType)}
	if t.Name, err = r.text(c.name); err != nil {
		return nil, err
	}
	for i := range uintptr(c.rank) {
		d, err := fetch[uint32](r, c.dims+4*i)
		if err != nil {
			return nil, err
		}
		t.Dims = append(t.Dims, d)
	}
	if c.quantize.definition == 1 {
		t.Quantization = oneScale(&c.quantize)
	}
	return t, nil
}

// oneScale reads the encodings that point nowhere; nil is any other.
func oneScale(c *cQuantizeParams) *Quantization {
	switch Encoding(c.encoding) {
	case ScaleOffset:
		one := (*cScaleOffset)(unsafe.Pointer(&c.union))
		return &Quantization{Encoding: ScaleOffset, Scales: []float32{one.scale}, Offsets: []int32{one.offset}}
	case BitsScaleOffset:
		one := (*cBitsScaleOffset)(unsafe.Pointer(&c.union))
		return &Quantization{Encoding: BitsScaleOffset, Bits: one.bits, Scales: []float32{one.scale}, Offsets: []int32{one.offset}}
	}
	return nil
}
