package rootfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestCreateReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, Create(root, "new", strings.NewReader("text"), 0o600))
	got, err := os.ReadFile(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, "text", string(got))

	require.ErrorIs(t, Create(root, "new", strings.NewReader("other"), 0o600), fs.ErrExist)
	got, err = os.ReadFile(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, "text", string(got), "the file that was there is kept")

	if os.Symlink("nothing", filepath.Join(dir, "link")) == nil {
		require.ErrorIs(t, Create(root, "link", strings.NewReader("other"), 0o600), fs.ErrExist)
		require.NoFileExists(t, filepath.Join(dir, "nothing"))
	}
}

func TestCreateLeavesNoIncompleteFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	failed := errors.New("the disk is unreadable")
	from := io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(failed))
	require.ErrorIs(t, Create(root, "new", from, 0o600), failed)
	require.NoFileExists(t, filepath.Join(dir, "new"))
}

func TestSumIsTheKnownOne(t *testing.T) {
	sum, size, err := Sum(strings.NewReader("abc")) // FIPS 180-2 gives the text "abc" and its SHA-256 as an example
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sum)
	require.EqualValues(t, 3, size)
	_, _, err = Sum(iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
