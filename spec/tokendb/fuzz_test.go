package tokendb

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec"
)

// sealed corrects the checksums in the bytes of a segment's file, so that the fuzzed
// contents are read and not rejected.
func sealed(file []byte) []byte {
	file = slices.Clone(file)
	if len(file) < headerSize {
		return file
	}
	for i := range sectionCount {
		at := file[64+20*i:]
		offset, size := binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[8:])
		if offset <= uint64(len(file)) && size <= uint64(len(file))-offset {
			binary.LittleEndian.PutUint32(at[16:], crc32.Checksum(file[offset:offset+size], castagnoli))
		}
	}
	binary.LittleEndian.PutUint32(file[headerSize-4:], crc32.Checksum(file[:headerSize-4], castagnoli))
	return file
}

// FuzzSegment opens and queries arbitrary files: no input makes it panic.
func FuzzSegment(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, vocab := range []int{9, 70000} {
		f.Add(fileOf(f, randomDocuments(rng, 5, 80, 9), vocab), []byte{1, 2, 3}, uint32(0), byte(0))
	}
	f.Add([]byte(segmentMagic), []byte{}, uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, file, context []byte, at uint32, value byte) {
		if len(file) > 0 {
			file = slices.Clone(file)
			file[int(at)%len(file)] ^= value
		}
		s, err := openSegment(sealed(file))
		if err != nil {
			require.Nil(t, s)
			return
		}
		p := &part{segment: s}
		d := &DB{parts: []*part{p, p}, index: spec.NewIndex(depth)}
		tokens := make([]int32, len(context))
		for i, b := range context {
			tokens[i] = int32(b) - 1
			d.index.Append(tokens[i])
		}
		tree := draft(d, tokens)
		require.LessOrEqual(t, tree.Len(), 31)
		for i := range min(int(s.header.documents), 100) {
			s.document(i)
		}
	})
}

// FuzzManifest parses arbitrary manifests: accepted ones encode to the same
// bytes.
func FuzzManifest(f *testing.F) {
	m := manifest{vocab: 5, next: 9, log: 8, segments: []uint64{3, 7}}
	f.Add(m.encode())
	f.Add((&manifest{vocab: 1}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 4 {
			b = binary.LittleEndian.AppendUint32(slices.Clone(b[:len(b)-4]), crc32.Checksum(b[:len(b)-4], castagnoli))
		}
		if m, err := parseManifest(b); err == nil {
			require.Equal(t, b, m.encode())
			require.LessOrEqual(t, len(m.segments), maxSegments)
		}
	})
}

// FuzzLog parses arbitrary logs: complete records encode to the same bytes, and each
// byte before the last one belongs to a record or is damaged.
func FuzzLog(f *testing.F) {
	b := encodeLogHeader(300, tokenizer)
	f.Add(appendRecord(appendRecord(b, Document{Conversation: 3, Time: 4, Tokens: []int32{1, 299, 5}}, 300), Document{}, 300), false)
	f.Add(appendRecord(encodeLogHeader(1<<20, tokenizer), Document{Tokens: []int32{1 << 19}}, 1<<20), true)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		vocab, _, err := parseLogHeader(b)
		if err != nil {
			return
		}
		body := slices.Clone(b[logHeaderSize:])
		if mend && len(body) >= recordHead {
			n := binary.LittleEndian.Uint32(body)
			if uint64(n) <= uint64(len(body)-recordHead) {
				binary.LittleEndian.PutUint32(body[4:], crc32.Checksum(body[recordHead:recordHead+n], castagnoli))
			}
		}
		r := parseRecords(body, vocab)
		var again []byte
		for _, document := range r.documents {
			again = appendRecord(again, document, vocab)
		}
		require.Equal(t, r.end, len(again)+r.damaged)
		if r.damaged == 0 {
			require.Equal(t, body[:r.end], append([]byte{}, again...))
		}
	})
}
