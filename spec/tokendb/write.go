package tokendb

import (
	"hash/crc32"
	"io"
)

// writeTo writes the segment's file and returns its size.
func (im *image) writeTo(w io.Writer, fingerprint [32]byte) (size int64, err error) {
	im.header.fingerprint = fingerprint
	offset := uint64(sectionAlign)
	for i, b := range im.sections {
		im.header.sections[i] = section{offset: offset, size: uint64(len(b)), sum: crc32.Checksum(b, castagnoli)}
		offset = aligned(offset + uint64(len(b)))
	}
	for _, b := range append([][]byte{im.header.encode()}, im.sections[:]...) {
		n, err := w.Write(b)
		if size += int64(n); err != nil {
			return size, err
		}
		n, err = w.Write(make([]byte, aligned(uint64(len(b)))-uint64(len(b))))
		if size += int64(n); err != nil {
			return size, err
		}
	}
	return size, nil
}

func aligned(n uint64) uint64 { return (n + sectionAlign - 1) / sectionAlign * sectionAlign }
