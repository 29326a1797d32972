package hexagon

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

// sampleManifest returns a manifest that lists the inputs and outputs of two graphs.
func sampleManifest() *manifest {
	port := func(name string, id uint32, shape ...int) portManifest {
		return portManifest{backend.Port{Name: name, Type: backend.Float16, Shape: shape}, id}
	}
	return &manifest{Fingerprint: "some library", Graphs: []graphManifest{
		{Name: "one", Nodes: 3, Inputs: []portManifest{port("x", 1, 1, 8)}, Outputs: []portManifest{port("y", 2, 1, 8), port("z", 3, 4)}},
		{Name: "two", Nodes: 1, Inputs: []portManifest{port("x", 1, 7)}, Outputs: []portManifest{port("y", 9, 7)}},
	}}
}

func sampleImage(t testing.TB) []byte {
	var image bytes.Buffer
	require.NoError(t, writeImage(&image, sampleManifest(), []byte("a context binary of some library")))
	return image.Bytes()
}

// forge writes an image with any manifest and correct checksums.
func forge(t testing.TB, text, contextBinary []byte, change func(h *imageHeader)) []byte {
	start := pages(imageHeaderSize + uint64(len(text)))
	padded := append(bytes.Clone(text), make([]byte, start-imageHeaderSize-uint64(len(text)))...)
	h := imageHeader{
		Version: imageVersion, ManifestSize: uint32(len(text)), ManifestSum: crc32.Checksum(padded, castagnoli),
		BinarySum: crc32.Checksum(contextBinary, castagnoli), BinaryStart: start, BinarySize: uint64(len(contextBinary)),
	}
	copy(h.Magic[:], imageMagic)
	if change != nil {
		change(&h)
	}
	h.HeaderSum = h.sum()
	var image bytes.Buffer
	require.NoError(t, binary.Write(&image, binary.LittleEndian, h))
	image.Write(padded)
	image.Write(contextBinary)
	return image.Bytes()
}

func TestImageIsReadAsWritten(t *testing.T) {
	m, contextBinary, err := readImage(sampleImage(t))
	require.NoError(t, err)
	require.Equal(t, sampleManifest(), m)
	require.Equal(t, "a context binary of some library", string(contextBinary))
}

func TestFlippedBytesAndTruncationAreDetected(t *testing.T) {
	image := sampleImage(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for at := range image {
		damaged := bytes.Clone(image)
		damaged[at] ^= 1 << rng.IntN(8)
		_, _, err := readImage(damaged)
		require.Error(t, err, "byte %d", at)
		_, _, err = readImage(image[:at])
		require.Error(t, err, "%d bytes", at)
	}
}

func TestForgedHeadersAreRejected(t *testing.T) {
	text, err := json.Marshal(sampleManifest())
	require.NoError(t, err)
	contextBinary := make([]byte, 3*imagePage)
	_, _, err = readImage(forge(t, text, contextBinary, nil))
	require.NoError(t, err)
	for name, change := range map[string]func(h *imageHeader){
		"magic":                  func(h *imageHeader) { h.Magic[0] = 'x' },
		"version":                func(h *imageHeader) { h.Version++ },
		"manifest too long":      func(h *imageHeader) { h.ManifestSize = 1<<32 - 1 },
		"manifest after the end": func(h *imageHeader) { h.ManifestSize, h.BinaryStart = 1<<20, 1<<20+imagePage },
		"start on another page":  func(h *imageHeader) { h.BinaryStart += imagePage; h.BinarySize -= imagePage },
		"start that overflows":   func(h *imageHeader) { h.BinaryStart = 1<<64 - imagePage },
		"start between pages":    func(h *imageHeader) { h.BinaryStart += 64; h.BinarySize -= 64 },
		"binary too short":       func(h *imageHeader) { h.BinarySize-- },
		"binary too long":        func(h *imageHeader) { h.BinarySize++ },
		"size that overflows":    func(h *imageHeader) { h.BinarySize = 1<<64 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readImage(forge(t, text, contextBinary, change))
			require.Error(t, err)
		})
	}
}

func TestForgedManifestsAreRejected(t *testing.T) {
	for name, change := range map[string]func(m *manifest){
		"no name":        func(m *manifest) { m.Graphs[0].Name = "" },
		"names twice":    func(m *manifest) { m.Graphs[1].Name = "one" },
		"unknown type":   func(m *manifest) { m.Graphs[0].Inputs[0].Type = 99 },
		"no shape":       func(m *manifest) { m.Graphs[0].Inputs[0].Shape = nil },
		"rank 6":         func(m *manifest) { m.Graphs[0].Outputs[0].Shape = []int{1, 1, 1, 1, 1, 1} },
		"nothing":        func(m *manifest) { m.Graphs[1].Inputs[0].Shape = []int{7, 0} },
		"negative shape": func(m *manifest) { m.Graphs[1].Outputs[0].Shape = []int{-7, -1} },
		"too large":      func(m *manifest) { m.Graphs[0].Outputs[1].Shape = []int{1 << 31, 1 << 31} },
		"overflow":       func(m *manifest) { m.Graphs[0].Outputs[1].Shape = []int{1 << 62, 4} },
		"no number":      func(m *manifest) { m.Graphs[0].Inputs[0].ID = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			m := sampleManifest()
			change(m)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			_, _, err = readImage(forge(t, text, []byte("binary"), nil))
			require.Error(t, err)
		})
	}
	_, _, err := readImage(forge(t, []byte("{"), []byte("binary"), nil))
	require.Error(t, err)
}

// FuzzReadImage reads any bytes as an image, and as the manifest of an image with correct
// checksums.
func FuzzReadImage(f *testing.F) {
	f.Add(sampleImage(f))
	text, err := json.Marshal(sampleManifest())
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(imageMagic))
	f.Add([]byte(`{"Graphs":[{"Name":"g","Inputs":[{"Name":"x","Type":2,"Shape":[1152921504606846976,16],"ID":1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, image := range [][]byte{data, forge(t, data, data, nil)} {
			m, contextBinary, err := readImage(image)
			if err != nil {
				continue
			}
			for _, g := range m.Graphs {
				for _, p := range append(g.Inputs, g.Outputs...) {
					require.Positive(t, p.SizeBytes())
					require.LessOrEqual(t, p.SizeBytes(), 1<<32-1)
				}
			}
			var again bytes.Buffer
			require.NoError(t, writeImage(&again, m, contextBinary))
			m2, contextBinary2, err := readImage(again.Bytes())
			require.NoError(t, err)
			require.Equal(t, m, m2)
			require.Equal(t, contextBinary, contextBinary2)
		}
	})
}

func TestImagesOfOtherDevicesAreRejected(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		d := openDevice(t, path)
		image := compile(t, d, double(t))
		other, err := Open(Options{Library: path, SoC: 43})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, other.Close()) })
		_, err = other.Load(t.Context(), backend.Image{Bytes: image})
		require.ErrorIs(t, err, backend.ErrImage, "another chip")
		require.ErrorContains(t, err, "soc 57")
		require.ErrorContains(t, err, "soc 43")

		m, contextBinary, err := readImage(image)
		require.NoError(t, err)
		m.Fingerprint += " of tomorrow"
		var changed bytes.Buffer
		require.NoError(t, writeImage(&changed, m, contextBinary))
		_, err = d.Load(t.Context(), backend.Image{Bytes: changed.Bytes()})
		require.ErrorIs(t, err, backend.ErrImage, "another build")
		require.ErrorContains(t, err, "of tomorrow")
	})
}

// TestRefusedBinariesAreImageErrors loads images with correct checksums whose context
// binary is invalid or belongs to another graph.
func TestRefusedBinariesAreImageErrors(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		d := openDevice(t, path)
		m, contextBinary, err := readImage(compile(t, d, double(t)))
		require.NoError(t, err)
		stranger := *m
		stranger.Graphs = append([]graphManifest(nil), m.Graphs...)
		stranger.Graphs[0].Name = "triple"
		for name, c := range map[string]struct {
			manifest *manifest
			binary   []byte
		}{
			"nothing":       {m, nil},
			"zeros":         {m, make([]byte, len(contextBinary))},
			"half":          {m, contextBinary[:len(contextBinary)/2]},
			"another graph": {&stranger, contextBinary},
		} {
			var image bytes.Buffer
			require.NoError(t, writeImage(&image, c.manifest, c.binary))
			_, err := d.Load(t.Context(), backend.Image{Bytes: image.Bytes()})
			require.ErrorIs(t, err, backend.ErrImage, name)
		}
	})
}
