package imagecache

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainSum computes the checksum of an image as its definition says, one section after the
// other.
func plainSum(image []byte) sum {
	all := binary.LittleEndian.AppendUint64(nil, uint64(len(image)))
	for at := 0; at < len(image); at += section {
		s := sha256.Sum256(image[at:min(at+section, len(image))])
		all = append(all, s[:]...)
	}
	return sha256.Sum256(all)
}

func TestSumDoesNotDependOnPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{0, 1, section - 1, section, section + 1, 3*section + 5, 4 * section} {
		image := make([]byte, size)
		for i := 0; i+8 <= len(image); i += 8 {
			binary.LittleEndian.PutUint64(image[i:], rng.Uint64())
		}
		want := plainSum(image)
		require.Equal(t, want, sumOf(image), "%d bytes at once", size)
		for range 5 {
			var s summer
			for rest := image; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(2*section))
				s.Write(rest[:n])
				rest = rest[n:]
			}
			require.Equal(t, want, s.sum(), "%d bytes in pieces", size)
			require.EqualValues(t, size, s.size)
		}
	}
}
