package hexagon

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
)

// An image is a header, the manifest as JSON, zeros up to the next page, and the
// library's context binary. The header holds sizes and checksums of both parts,
// the zeros counted to the manifest, and of itself; all numbers are
// little-endian.
const (
	imageMagic   = "sdnpuHTP"
	imageVersion = 1
	imagePage    = 4096
	maxManifest  = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type imageHeader struct {
	Magic        [8]byte
	Version      uint32
	ManifestSize uint32
	ManifestSum  uint32
	BinarySum    uint32
	BinaryStart  uint64
	BinarySize   uint64
	HeaderSum    uint32 // over the fields before
}

// imageHeaderSize is a header's size in an image.
var imageHeaderSize = uint64(binary.Size(imageHeader{}))

// pages rounds up.
func pages(n uint64) uint64 { return (n + imagePage - 1) / imagePage * imagePage }

// manifest says what the context binary holds.
type manifest struct {
	// Fingerprint is the compiling device's.
	Fingerprint string
	Graphs      []graphManifest
}

type graphManifest struct {
	Name            string
	Nodes           int
	Inputs, Outputs []portManifest
}

type portManifest struct {
	backend.Port
	// ID is the library's number of the tensor.
	ID uint32
}

// writeImage writes manifest and binary.
func writeImage(w io.Writer, m *manifest, contextBinary []byte) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxManifest {
		return fmt.Errorf("manifest has %d bytes, at most %d are read back", len(text), maxManifest)
	}
	start := pages(imageHeaderSize + uint64(len(text)))
	padded := append(text, make([]byte, start-imageHeaderSize-uint64(len(text)))...)
	h := imageHeader{
		Version:      imageVersion,
		ManifestSize: uint32(len(text)),
		ManifestSum:  crc32.Checksum(padded, castagnoli),
		BinarySum:    crc32.Checksum(contextBinary, castagnoli),
		BinaryStart:  start,
		BinarySize:   uint64(len(contextBinary)),
	}
	copy(h.Magic[:], imageMagic)
	h.HeaderSum = h.sum()
	var front bytes.Buffer
	if err := binary.Write(&front, binary.LittleEndian, h); err != nil {
		return err
	}
	front.Write(padded)
	if _, err := w.Write(front.Bytes()); err != nil {
		return err
	}
	_, err = w.Write(contextBinary)
	return err
}

func (h *imageHeader) sum() uint32 {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		panic(err) // a fixed-size struct into memory
	}
	return crc32.Checksum(b.Bytes()[:b.Len()-4], castagnoli)
}

// readImage checks everything and returns the manifest and the context binary,
// which lies in image.
func readImage(image []byte) (*manifest, []byte, error) {
	var h imageHeader
	if err := binary.Read(bytes.NewReader(image), binary.LittleEndian, &h); err != nil {
		return nil, nil, fmt.Errorf("%d bytes are no image", len(image))
	}
	if string(h.Magic[:]) != imageMagic {
		return nil, nil, fmt.Errorf("magic %q is not ours", h.Magic[:])
	}
	if h.Version != imageVersion {
		return nil, nil, fmt.Errorf("version %d, this program reads %d", h.Version, imageVersion)
	}
	size := uint64(len(image))
	used := imageHeaderSize + uint64(h.ManifestSize)
	if h.HeaderSum != h.sum() || h.ManifestSize > maxManifest || h.BinaryStart != pages(used) ||
		h.BinaryStart >= size || h.BinarySize != size-h.BinaryStart {
		return nil, nil, fmt.Errorf("header is damaged, or the image is cut short at %d bytes", size)
	}
	text, contextBinary := image[imageHeaderSize:used], image[h.BinaryStart:]
	if crc32.Checksum(image[imageHeaderSize:h.BinaryStart], castagnoli) != h.ManifestSum || crc32.Checksum(contextBinary, castagnoli) != h.BinarySum {
		return nil, nil, fmt.Errorf("checksum differs: the image is damaged")
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	return &m, contextBinary, m.check()
}

// check refuses what a run could not bind.
func (m *manifest) check() error {
	names := make(map[string]bool, len(m.Graphs))
	for _, g := range m.Graphs {
		if g.Name == "" || names[g.Name] {
			return fmt.Errorf("graph name %q is empty or used twice", g.Name)
		}
		names[g.Name] = true
		for _, p := range slices.Concat(g.Inputs, g.Outputs) {
			if err := p.check(); err != nil {
				return fmt.Errorf("graph %q: %w", g.Name, err)
			}
		}
	}
	return nil
}

// check bounds a port's size: QNN counts bytes in 32 bits.
func (p *portManifest) check() error {
	size := p.Type.Size()
	if p.ID == 0 || size == 0 || len(p.Shape) == 0 || len(p.Shape) > backend.MaxRank {
		return fmt.Errorf("port %q has number %d, type %v and shape %v", p.Name, p.ID, p.Type, p.Shape)
	}
	for _, d := range p.Shape {
		if d < 1 || size > math.MaxUint32/d {
			return fmt.Errorf("port %q has shape %v", p.Name, p.Shape)
		}
		size *= d
	}
	return nil
}
