package imagecache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func keyOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func fillWith(image []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(image)
		return err
	}
}

func open(t testing.TB) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	return s, &log
}

func requireImage(t testing.TB, s *Store, key string, image []byte) {
	t.Helper()
	e, err := s.Get(key)
	require.NoError(t, err)
	require.True(t, bytes.Equal(image, e.Bytes()), "the image differs")
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
}

func requireFiles(t testing.TB, s *Store, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir())
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestImagesPersist(t *testing.T) {
	s, log := open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 63, 4096, 100_001} {
		image := make([]byte, size)
		for i := range image {
			image[i] = byte(rng.Uint32())
		}
		key := keyOf(fmt.Sprint(size))
		_, err := s.Get(key)
		require.ErrorIs(t, err, ErrMiss)
		require.NoError(t, s.Put(key, nil, func(w io.Writer) error {
			for rest := image; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(5000))
				if _, err := w.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		}))
		other, err := Open(s.Dir(), Options{})
		require.NoError(t, err)
		requireImage(t, other, key, image)
	}
	require.Empty(t, log.String(), "a plain miss logs nothing")
}

func TestPutReplacesAnImageThatIsInUse(t *testing.T) {
	s, _ := open(t)
	key := keyOf("a")
	require.NoError(t, s.Put(key, nil, fillWith([]byte("old"))))
	old, err := s.Get(key)
	require.NoError(t, err)
	require.NoError(t, s.Put(key, nil, fillWith([]byte("new"))))
	require.Equal(t, "old", string(old.Bytes()))
	require.NoError(t, old.Close())
	requireImage(t, s, key, []byte("new"))
}

func TestInvalidKeysAreRejected(t *testing.T) {
	s, _ := open(t)
	upper := keyOf("a")
	for _, key := range []string{"", "abc", "../" + upper[3:], upper[:63] + "A", upper + "0"} {
		_, err := s.Get(key)
		require.ErrorIs(t, err, ErrKey)
		require.ErrorIs(t, s.Put(key, nil, fillWith(nil)), ErrKey)
	}
	requireFiles(t, s)
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	s, log := open(t)
	key, image := keyOf("a"), bytes.Repeat([]byte("image "), 50)
	require.NoError(t, s.Put(key, nil, fillWith(image)))
	whole, err := os.ReadFile(s.path(key))
	require.NoError(t, err)

	damage := map[string][]byte{
		"empty":         {},
		"foreign":       bytes.Repeat([]byte("GGUF"), 2000),
		"longer":        append(bytes.Clone(whole), 0),
		"other version": otherVersion(whole),
	}
	for _, n := range []int{1, 8, labelStart, headerSum, headerSize - 1, headerSize, headerSize + 1, len(whole) - 1} {
		damage[fmt.Sprintf("cut to %d", n)] = whole[:n]
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		damage[fmt.Sprintf("byte %d flipped", i)] = flipped
	}
	for name, content := range damage {
		log.Reset()
		require.NoError(t, os.WriteFile(s.path(key), content, 0o600))
		_, err := s.Get(key)
		require.ErrorIs(t, err, ErrMiss, name)
		require.Contains(t, log.String(), "removing an image", name)
		requireFiles(t, s)
	}
}

// otherVersion returns the file of a later program: valid, but not for this
// version.
func otherVersion(whole []byte) []byte {
	b := bytes.Clone(whole)
	b[8]++
	resum(b)
	return b
}

// resum updates a header's checksum.
func resum(file []byte) {
	s := sha256.Sum256(file[:headerSum])
	copy(file[headerSum:headerSize], s[:])
}

func TestImageUnderAnotherKeyIsAMiss(t *testing.T) {
	s, _ := open(t)
	require.NoError(t, s.Put(keyOf("a"), nil, fillWith([]byte("image"))))
	require.NoError(t, os.Rename(s.path(keyOf("a")), s.path(keyOf("b"))))
	_, err := s.Get(keyOf("b"))
	require.ErrorIs(t, err, ErrMiss)
	requireFiles(t, s)
}

func TestFolderInPlaceOfImageIsAMiss(t *testing.T) {
	s, log := open(t)
	key := keyOf("a")
	require.NoError(t, os.MkdirAll(filepath.Join(s.path(key), "full"), 0o700))
	_, err := s.Get(key)
	require.ErrorIs(t, err, ErrMiss)
	require.Contains(t, log.String(), "could not read an image")
	require.ErrorIs(t, s.Put(key, nil, fillWith(nil)), ErrStore)
	requireFiles(t, s, filepath.Base(s.path(key)))
}

func TestFailingFillKeepsOldImage(t *testing.T) {
	s, _ := open(t)
	key, old := keyOf("a"), []byte("old")
	require.NoError(t, s.Put(key, nil, fillWith(old)))
	failed := errors.New("no such operator")
	for _, written := range []int{0, 1, 5000} {
		err := s.Put(key, nil, func(w io.Writer) error {
			if _, err := w.Write(make([]byte, written)); err != nil {
				return err
			}
			return failed
		})
		require.ErrorIs(t, err, failed)
		require.NotErrorIs(t, err, ErrStore)
		requireImage(t, s, key, old)
		requireFiles(t, s, filepath.Base(s.path(key)))
	}
}

func TestOnlyOldLeftoversAreRemoved(t *testing.T) {
	s, _ := open(t)
	for name, age := range map[string]time.Duration{"put-1.tmp": tempAge + time.Hour, "put-2.tmp": deadAge / 2, "notes.txt": 2 * tempAge} {
		path := filepath.Join(s.Dir(), name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		when := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, when, when))
	}
	_, err := Open(s.Dir(), Options{})
	require.NoError(t, err)
	requireFiles(t, s, "put-2.tmp", "notes.txt")
}

func TestOpenFailsWithoutFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := Open(filepath.Join(path, "cache"), Options{})
	require.Error(t, err)

	s, _ := open(t)
	require.NoError(t, os.RemoveAll(s.Dir()))
	require.ErrorIs(t, s.Put(keyOf("a"), nil, fillWith(nil)), ErrStore)
	_, err = s.Get(keyOf("a"))
	require.ErrorIs(t, err, ErrMiss)
}

func TestConcurrentUsersSeeWholeImages(t *testing.T) {
	s, log := open(t)
	key := keyOf("a")
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			own, err := Open(s.Dir(), Options{})
			require.NoError(t, err)
			for range 20 {
				require.NoError(t, own.Put(key, nil, fillWith(bytes.Repeat([]byte{byte(i)}, 10_000))))
				e, err := s.Get(key)
				require.NoError(t, err)
				require.Equal(t, bytes.Repeat(e.Bytes()[:1], 10_000), e.Bytes())
				require.NoError(t, e.Close())
			}
		})
	}
	group.Wait()
	require.Empty(t, log.String())
	requireFiles(t, s, filepath.Base(s.path(key)))
}

func BenchmarkGet(b *testing.B) {
	s, _ := open(b)
	key := keyOf("a")
	image := make([]byte, 300<<20)
	require.NoError(b, s.Put(key, nil, fillWith(image)))
	b.SetBytes(int64(len(image)))
	for b.Loop() {
		e, err := s.Get(key)
		require.NoError(b, err)
		require.NoError(b, e.Close())
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := Open(dir, Options{})
	if err != nil {
		panic(err)
	}
	key := keyOf("graph, device and version")
	image, err := store.Get(key)
	if errors.Is(err, ErrMiss) {
		err = store.Put(key, nil, func(w io.Writer) error {
			_, err := io.WriteString(w, "compiled")
			return err
		})
		if err == nil {
			image, err = store.Get(key)
		}
	}
	if err != nil {
		panic(err)
	}
	defer image.Close()
	fmt.Println(string(image.Bytes()))
	// Output: compiled
}
