package gguf

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/sdnpu/sdnpu/internal/mapped"
)

// File is an open GGUF file.
type File struct {
	path    string
	mapping *mapped.File
	data    []byte
	header  header
	// keyBytes is a copy of the file's beginning up to the end of the keys; it stays valid
	// after Close, and is empty after OpenKeys
	keyBytes string
	keys     map[string]int // keys maps each name to its index in header.keys
	tensors  map[string]int // tensors maps each name to its index in header.tensors
	digest   func() [sha256.Size]byte
}

// Open maps a complete model or adapter file into memory and checks its header. The
// comment of package gguf lists what Open requires of a file.
func Open(path string) (*File, error) {
	return open(path, true, func(f *os.File) (*mapped.File, error) { return mapped.Keep(f, mapped.Keeping{}) })
}

// OpenKeys maps a file into memory and reads only its keys. OpenKeys also accepts files
// with tensors that [Open] rejects, and single parts of a split model. OpenKeys copies
// no value, so values must be read before [File.Close].
func OpenKeys(path string) (*File, error) { return open(path, false, mapped.Map) }

func open(path string, whole bool, mapFile func(*os.File) (*mapped.File, error)) (*File, error) {
	m, err := mapped.OpenWith(path, mapFile)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f := &File{path: path, mapping: m, data: m.Bytes()}
	if err := mapped.Guard(func() error { return f.read(whole) }); err != nil {
		_ = m.Close() // an error of Close is ignored, because the first error is the more useful one
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.digest = sync.OnceValue(func() [sha256.Size]byte { return sha256.Sum256(f.data) })
	return f, nil
}

func (f *File) read(whole bool) error {
	c := &cursor{data: f.data}
	h, tensors := scanKeys(c)
	if whole {
		h.scanTensors(c, tensors)
	}
	if c.err != nil {
		return c.err
	}
	f.header = h
	f.keys = make(map[string]int, len(h.keys))
	for i, k := range h.keys {
		f.keys[k.Name] = i
	}
	f.tensors = make(map[string]int, len(h.tensors))
	for i, t := range h.tensors {
		f.tensors[t.Name] = i
	}
	if !whole {
		return nil
	}
	f.keyBytes = string(f.data[:h.keysEnd])
	switch parts, err := f.Uint("split.count", 1); {
	case err != nil:
		return err
	case parts > 1:
		return fmt.Errorf("%w: the file is one of %d parts of a split model: join them first (llama-gguf-split --merge)", ErrUnsupported, parts)
	}
	return nil
}

// Close unmaps the file. After Close, the bytes of the file's tensors must not be used.
// A second call of Close does nothing.
func (f *File) Close() error { return f.mapping.Close() }

// Path returns the path by which the file was opened.
func (f *File) Path() string { return f.path }

// Size returns the length of the file in bytes.
func (f *File) Size() int64 { return int64(len(f.data)) }

// Version returns the version of the file's GGUF format, 2 or 3.
func (f *File) Version() int { return int(f.header.version) }

// Digest returns the SHA-256 of the GGUF file. The first call of Digest reads the whole
// file, about a second per 2 GB, and so must come before Close.
func (f *File) Digest() [sha256.Size]byte { return f.digest() }

// KnowDigest sets the digest of the file, if another process has already computed it. After
// KnowDigest, Digest does not read the file.
func (f *File) KnowDigest(sum [sha256.Size]byte) {
	f.digest = func() [sha256.Size]byte { return sum }
}

// Keys returns the keys in their order in the file.
func (f *File) Keys() iter.Seq[Key] { return slices.Values(f.header.keys) }

// Tensors returns the tensors in their order in the file.
func (f *File) Tensors() iter.Seq[Tensor] { return slices.Values(f.header.tensors) }

// Tensor finds a tensor of the file by its name. If the file has no tensor with the given name, the
// error wraps [ErrNoTensor].
func (f *File) Tensor(name string) (Tensor, error) {
	i, ok := f.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%w: %s", ErrNoTensor, name)
	}
	return f.header.tensors[i], nil
}
