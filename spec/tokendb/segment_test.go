package tokendb

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec"
)

// randomDocuments returns texts whose contexts repeat.
func randomDocuments(rng *rand.Rand, n, length, alphabet int) []Document {
	documents := make([]Document, n)
	for i := range documents {
		tokens := make([]int32, rng.IntN(length))
		for j := range tokens {
			if tokens[j] = int32(rng.IntN(alphabet)); j > 9 && rng.IntN(3) > 0 {
				tokens[j] = tokens[j-9]
			}
		}
		documents[i] = Document{Conversation: uint64(i / 2), Time: int64(1000 + i), Tokens: tokens}
	}
	return documents
}

func indexOf(documents []Document) *spec.Index {
	x := spec.NewIndex(depth)
	for _, d := range documents {
		x.Append(spec.Separator)
		for _, token := range d.Tokens {
			x.Append(token)
		}
	}
	return x
}

// fileOf returns the content of the file of a new segment with the given documents.
func fileOf(t testing.TB, documents []Document, vocab int) []byte {
	var b buffer
	_, err := build(documents, vocab).writeTo(&b, [32]byte{1})
	require.NoError(t, err)
	return b.bytes
}

type buffer struct{ bytes []byte }

func (b *buffer) Write(p []byte) (int, error) { b.bytes = append(b.bytes, p...); return len(p), nil }

func TestSegmentCountsAsIndexDoes(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		vocab := []int{2, 5, 40, 300, 66000}[seed%5]
		documents := randomDocuments(rng, 1+rng.IntN(40), 1+rng.IntN(400), min(vocab, 60))
		s, err := openSegment(fileOf(t, documents, vocab))
		require.NoError(t, err)
		index := indexOf(documents)
		var l lists
		for range 100 {
			context := randomContext(rng, documents, min(vocab, 60))
			requireSameLevels(t, index, &single{s, &l, [depth + 1]level{}}, context)
		}
	}
}

// randomContext returns a context from a document, or a random one, the newest
// token first.
func randomContext(rng *rand.Rand, documents []Document, alphabet int) []int32 {
	context := make([]int32, rng.IntN(depth+4))
	tokens := documents[rng.IntN(len(documents))].Tokens
	end := rng.IntN(len(tokens) + 1)
	for i := range context {
		if context[i] = int32(rng.IntN(alphabet)); end-1-i >= 0 && rng.IntN(12) > 0 {
			context[i] = tokens[end-1-i]
		}
	}
	return context
}

// single implements spec.Source for one segment.
type single struct {
	s   *segment
	l   *lists
	out [depth + 1]level
}

func (s *single) Levels(context []int32, total, distinct []float32, first []int32) int {
	s.l.reset()
	n := s.s.levels(context, &s.out, s.l)
	for k := range n {
		total[k], distinct[k], first[k] = float32(s.out[k].total), float32(s.out[k].distinct), int32(k)
	}
	return n
}

func (s *single) all(k int) (list []listed) {
	for i := s.out[k].first; ; i++ {
		var e listed
		if s.out[k].counted {
			e = s.l.entries[i]
		} else {
			e.token, e.count, e.last = s.s.entry(uint32(i))
		}
		if list = append(list, e); e.last {
			return list
		}
	}
}

func requireSameLevels(t *testing.T, index *spec.Index, s *single, context []int32) {
	var want, got, wantDistinct, gotDistinct [depth + 1]float32
	var wantFirst, gotFirst [depth + 1]int32
	if len(context) > depth {
		context = context[:depth]
	}
	n := index.Levels(context, want[:], wantDistinct[:], wantFirst[:])
	require.Equal(t, n, s.Levels(context, got[:], gotDistinct[:], gotFirst[:]), "%v", context)
	require.Equal(t, want, got)
	require.Equal(t, wantDistinct, gotDistinct)
	for k := range n {
		list := s.all(k)
		at := wantFirst[k]
		for i, e := range list {
			require.NotEqual(t, spec.End, at)
			token, count, next := index.Successor(at)
			require.Equal(t, listed{token, uint32(count), i == len(list)-1}, e, "context %v of %d", context, k)
			at = next
		}
		require.True(t, at == spec.End || len(list) == maxSuccessors, "%v of %d: %v", context, k, list)
	}
}

// TestFrequentContextsOfEveryLengthAreCounted mixes frequent contexts of all
// lengths with rare ones.
func TestFrequentContextsOfEveryLengthAreCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 7))
	tokens := make([]int32, 12000)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(2 + rng.IntN(2)))
	}
	documents := []Document{{Tokens: tokens}}
	s, err := openSegment(fileOf(t, documents, 5))
	require.NoError(t, err)
	index := indexOf(documents)
	var l lists
	for range 2000 {
		context := make([]int32, depth)
		for i := range context {
			context[i] = int32(rng.IntN(3))
		}
		requireSameLevels(t, index, &single{s, &l, [depth + 1]level{}}, context)
	}
}

// TestHostileSegmentsAreReadSafely reads files with valid checksums and
// arbitrary contents.
func TestHostileSegmentsAreReadSafely(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 7))
	documents := randomDocuments(rng, 10, 400, 4)
	good := fileOf(t, documents, 300)
	h, err := parseHeader(good)
	require.NoError(t, err)
	for range 3000 {
		bad := slices.Clone(good)
		section := h.sections[rng.IntN(sectionCount)]
		for range 1 + rng.IntN(40) {
			bad[section.offset+uint64(rng.Int64N(int64(section.size)))] = byte(rng.Uint32())
		}
		s, err := openSegment(sealed(bad))
		require.NoError(t, err)
		d := &DB{parts: []*part{{segment: s}}, index: indexOf(nil)}
		draft(d, documents[rng.IntN(len(documents))].Tokens)
		for i := range documents {
			s.document(i)
		}
	}
}
