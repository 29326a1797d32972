package saved

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// write returns a file with the given header, keys and values.
func write(t testing.TB, h *Header, data []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, h)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	n, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, file.Len(), n)
	return file.Bytes()
}

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		h := &Header{Recipe: "f16+kv8"[:rng.IntN(8)], Layers: rng.IntN(1 << 20), KVHeads: 3, HeadDim: 4, Type: 5, Prompt: rng.IntN(99), Tokens: make([]int32, rng.IntN(40))}
		h.Identity[rng.IntN(32)] = byte(rng.IntN(256))
		for i := range h.Tokens {
			h.Tokens[i] = int32(rng.Uint32())
		}
		data := make([]byte, rng.IntN(500))
		for i := range data {
			data[i] = byte(rng.IntN(256))
		}
		r := bytes.NewReader(write(t, h, data))
		got, err := ReadHeader(r, 40)
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.NoError(t, Check(r, got, int64(len(data))))
		read := make([]byte, len(data))
		_, err = io.ReadFull(r, read)
		require.NoError(t, err)
		require.Equal(t, data, read)
	}
}

func TestHeadersOverTheirBoundsAreRejected(t *testing.T) {
	_, err := NewWriter(io.Discard, &Header{Recipe: string(make([]byte, maxRecipe+1))})
	require.ErrorIs(t, err, ErrFile)
	file := write(t, &Header{Tokens: make([]int32, 9)}, nil)
	_, err = ReadHeader(bytes.NewReader(file), 8)
	require.ErrorIs(t, err, ErrFile)
	require.ErrorContains(t, err, "9 tokens, and the context has 8")
}

// FuzzNoOtherFileIsAccepted reads files of random bytes. An accepted file must equal, byte
// by byte, the file that Writer writes from the contents that were read.
func FuzzNoOtherFileIsAccepted(f *testing.F) {
	f.Add(write(f, &Header{Recipe: "f16", Layers: 2, Tokens: []int32{1, 2, 3}}, make([]byte, 16)))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		r := bytes.NewReader(file)
		h, err := ReadHeader(r, 100)
		if err != nil {
			require.ErrorIs(t, err, ErrFile)
			return
		}
		require.LessOrEqual(t, len(h.Tokens), 100)
		if err := Check(r, h, 16); err != nil {
			require.ErrorIs(t, err, ErrFile)
			return
		}
		data := make([]byte, 16)
		_, err = io.ReadFull(r, data)
		require.NoError(t, err)
		require.Equal(t, file, write(t, h, data))
	})
}

func ExampleReadHeader() {
	var file bytes.Buffer
	w, _ := NewWriter(&file, &Header{Recipe: "f16", Tokens: []int32{1, 403}})
	_, _ = w.Write([]byte("keys and values"))
	_, _ = w.Finish()

	r := bytes.NewReader(file.Bytes())
	h, _ := ReadHeader(r, 512)
	fmt.Println(h.Recipe, h.Tokens, Check(r, h, 15))
	fmt.Println(Check(r, h, 16))
	// Output:
	// f16 [1 403] <nil>
	// no valid saved sequence: the file has 130 bytes, and a sequence of 2 tokens needs 131
}
