package imagecache

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHeader reads arbitrary headers with valid checksums, so that all of the
// parser is reached.
func FuzzHeader(f *testing.F) {
	image := []byte("image")
	k, _ := parseKey(keyOf("a"))
	good := header{key: k, size: uint64(len(image)), sum: sumOf(image), label: Label{"model": "m", "rows": "128,1"}.encode()}
	plain := append(good.encode(), image...)
	f.Add(plain, true)
	f.Add(plain[:headerSize], true)
	f.Add(plain[:labelStart], false)
	f.Add(append(bytes.Clone(plain), 0), true)
	f.Add([]byte("GGUF"), false)
	for _, at := range []int{0, 8, 12, 16, 23, 24, 56, labelStart, headerSum - 1, headerSum} {
		b := bytes.Clone(plain)
		b[at] ^= 0x80
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, file []byte, repair bool) {
		if repair && len(file) >= headerSize {
			file = bytes.Clone(file) // a fuzz test must not change the fuzzer's input
			resum(file)
		}
		h, err := parseHeader(file, int64(len(file)))
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		require.Equal(t, file[:headerSize], h.encode(), "a header has one encoding")
		h.readLabel()
		got, err := check(file, h.key)
		if err == nil {
			require.Equal(t, file[headerSize:], got)
		}
		other := h.key
		other[0]++
		_, err = check(file, other)
		require.ErrorIs(t, err, errDamaged)
	})
}
