package imagecache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// The header, in little-endian numbers:
//
//	  0  magic, 8 bytes
//	  8  format version, u32
//	 12  zero, u32
//	 16  length of the image, u64
//	 24  key, 32 bytes
//	 56  SHA-256 of the image, 32 bytes
//	 88  SHA-256 of the 88 bytes before, 32 bytes
//	120  zeros
const (
	magic         = "sdnpuimg"
	formatVersion = 1
	headerSize    = 4096
	headerSum     = 88
	headerEnd     = headerSum + sha256.Size
)

// key is a key in binary form.
type key [sha256.Size]byte

func parseKey(text string) (key, error) {
	var k key
	if len(text) != 2*len(k) {
		return k, fmt.Errorf("imagecache: %w %q: %d characters wanted", ErrKey, text, 2*len(k))
	}
	for _, c := range []byte(text) {
		// hex.Decode takes upper case as well, which would name other files.
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return k, fmt.Errorf("imagecache: %w %q: %q is no lower-case hexadecimal digit", ErrKey, text, c)
		}
	}
	_, err := hex.Decode(k[:], []byte(text))
	return k, err
}

// header is what a file says of itself.
type header struct {
	key  key
	size uint64 // of the image, in bytes
	sum  [sha256.Size]byte
}

// encode returns the header's headerSize bytes.
func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], h.size)
	copy(b[24:], h.key[:])
	copy(b[56:], h.sum[:])
	sum := sha256.Sum256(b[:headerSum])
	copy(b[headerSum:], sum[:])
	return b
}

// check returns the image in a file's bytes, or says what is wrong with them.
func check(file []byte, want key) ([]byte, error) {
	if len(file) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes are less than a header's %d", errDamaged, len(file), headerSize)
	}
	if string(file[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: not a file of this cache", errDamaged)
	}
	if sha256.Sum256(file[:headerSum]) != [sha256.Size]byte(file[headerSum:headerEnd]) {
		return nil, fmt.Errorf("%w: the header fails its checksum", errDamaged)
	}
	if v := binary.LittleEndian.Uint32(file[8:]); v != formatVersion {
		return nil, fmt.Errorf("%w: format %d, this program reads %d", errDamaged, v, formatVersion)
	}
	h := header{key: key(file[24:56]), size: binary.LittleEndian.Uint64(file[16:]), sum: [sha256.Size]byte(file[56:headerSum])}
	if h.key != want {
		return nil, fmt.Errorf("%w: it holds the image of key %x", errDamaged, h.key)
	}
	image := file[headerSize:]
	if uint64(len(image)) != h.size {
		return nil, fmt.Errorf("%w: %d bytes of image, %d expected", errDamaged, len(image), h.size)
	}
	if sha256.Sum256(image) != h.sum {
		return nil, fmt.Errorf("%w: the image fails its checksum", errDamaged)
	}
	return image, nil
}
