package imagecache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// The header has little-endian numbers:
//
//	   0  magic, 8 bytes
//	   8  format version, u32
//	  12  length of the label, u32
//	  16  length of the image, u64
//	  24  key, 32 bytes
//	  56  sum of the image, 32 bytes
//	  88  label, a JSON object of strings
//	      zeros
//	4064  SHA-256 of all bytes before, 32 bytes
const (
	magic         = "sdnpuimg"
	formatVersion = 2
	headerSize    = 4096
	labelStart    = 88
	headerSum     = headerSize - sha256.Size
)

// Label describes an image for people, as names with values. There is room for
// about 3900 bytes; the longest values are cut to fit.
type Label map[string]string

// encode returns the label as JSON.
func (l Label) encode() []byte {
	for limit := headerSum - labelStart; ; limit /= 2 {
		cut := make(Label, len(l))
		for name, value := range l {
			cut[name] = value[:min(len(value), limit)]
		}
		text, err := json.Marshal(cut)
		if err != nil {
			panic(err) // strings always marshal
		}
		if len(text) <= headerSum-labelStart {
			return text
		}
		if limit == 0 { // too many names
			return []byte("{}")
		}
	}
}

// key is the binary form of a key.
type key [sha256.Size]byte

func parseKey(text string) (key, error) {
	var k key
	if len(text) != 2*len(k) {
		return k, fmt.Errorf("imagecache: %w %q: want %d characters", ErrKey, text, 2*len(k))
	}
	for _, c := range []byte(text) {
		// hex.Decode accepts upper case as well, which would name other files.
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return k, fmt.Errorf("imagecache: %w %q: %q is no lower-case hexadecimal digit", ErrKey, text, c)
		}
	}
	_, err := hex.Decode(k[:], []byte(text))
	return k, err
}

// header is the parsed header of a file.
type header struct {
	key   key
	size  uint64 // of the image, in bytes
	sum   sum
	label []byte // in the form that encode returns
}

// encode returns the headerSize bytes of the header.
func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(h.label)))
	binary.LittleEndian.PutUint64(b[16:], h.size)
	copy(b[24:], h.key[:])
	copy(b[56:], h.sum[:])
	copy(b[labelStart:headerSum], h.label)
	s := sha256.Sum256(b[:headerSum])
	copy(b[headerSum:], s[:])
	return b
}

// parseHeader reads the header of a file of the given length.
func parseHeader(b []byte, fileSize int64) (*header, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes are less than a header's %d", errDamaged, len(b), headerSize)
	}
	b = b[:headerSize]
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: not a file of this cache", errDamaged)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		// Check this before the checksum, which another version may store
		// elsewhere.
		return nil, fmt.Errorf("%w: format %d: want %d", errDamaged, v, formatVersion)
	}
	if sha256.Sum256(b[:headerSum]) != [sha256.Size]byte(b[headerSum:]) {
		return nil, fmt.Errorf("%w: the header fails its checksum", errDamaged)
	}
	h := &header{key: key(b[24:56]), size: binary.LittleEndian.Uint64(b[16:]), sum: sum(b[56:labelStart])}
	length := binary.LittleEndian.Uint32(b[12:])
	if length > headerSum-labelStart {
		return nil, fmt.Errorf("%w: a label of %d bytes", errDamaged, length)
	}
	label, rest := b[labelStart:labelStart+length], b[labelStart+length:headerSum]
	if len(bytes.Trim(rest, "\x00")) > 0 {
		return nil, fmt.Errorf("%w: bytes after the label", errDamaged)
	}
	h.label = bytes.Clone(label)
	if image := fileSize - headerSize; image < 0 || uint64(image) != h.size {
		return nil, fmt.Errorf("%w: %d bytes of image: want %d", errDamaged, image, h.size)
	}
	return h, nil
}

// readLabel returns the label, or nil if it is invalid.
func (h *header) readLabel() Label {
	var l Label
	if json.Unmarshal(h.label, &l) != nil {
		return nil
	}
	return l
}

// check returns the image in a file's bytes, or the reason why they are
// invalid.
func check(file []byte, want key) ([]byte, error) {
	h, err := parseHeader(file, int64(len(file)))
	if err != nil {
		return nil, err
	}
	if h.key != want {
		return nil, fmt.Errorf("%w: it holds the image of key %x", errDamaged, h.key)
	}
	image := file[headerSize:]
	if sumOf(image) != h.sum {
		return nil, fmt.Errorf("%w: the image fails its checksum", errDamaged)
	}
	return image, nil
}
