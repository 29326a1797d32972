//go:build unix

package qnnruntime

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/trust"
)

func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestInstallReplacesNothingOfOthers puts files of the user into the folder of an
// installation: without a list of contents, next to the listed files, in place of
// the listed files, and through links.
func TestInstallReplacesNothingOfOthers(t *testing.T) {
	a, err := open(wheel(t, good()), false)
	require.NoError(t, err)
	for name, prepare := range map[string]func(t *testing.T, folder, away string){
		"a folder of the user": func(t *testing.T, folder, _ string) { put(t, "mine", folder, distribution, "notes.txt") },
		"libraries of the user": func(t *testing.T, folder, _ string) {
			put(t, "mine", folder, distribution+".libs", "libc++.so")
		},
		"a list of the user": func(t *testing.T, folder, _ string) { put(t, `{"mine":1}`, folder, stampFile) },
		"a list without checksums": func(t *testing.T, folder, _ string) {
			put(t, "mine", folder, distribution, "libQnnHtp.so")
			put(t, `{"version":"2.7.0","system":"linux/arm64","files":["onnxruntime_qnn/libQnnHtp.so"]}`, folder, stampFile)
		},
		"a file next to the installed ones": func(t *testing.T, folder, _ string) {
			_, err := a.Unpack(folder, nil)
			require.NoError(t, err)
			put(t, "mine", folder, distribution, "notes.txt")
		},
		"a changed file": func(t *testing.T, folder, _ string) {
			_, err := a.Unpack(folder, nil)
			require.NoError(t, err)
			put(t, "mine", folder, distribution, "libQnnHtp.so")
		},
		"a linked folder with identical files": func(t *testing.T, folder, away string) {
			_, err := a.Unpack(folder, nil)
			require.NoError(t, err)
			require.NoError(t, os.Rename(filepath.Join(folder, distribution), filepath.Join(away, "x")))
			require.NoError(t, os.Symlink(filepath.Join(away, "x"), filepath.Join(folder, distribution)))
		},
		"a linked list": func(t *testing.T, folder, away string) {
			list := put(t, "mine", away, "list")
			require.NoError(t, os.Symlink(list, filepath.Join(folder, stampFile)))
		},
		"a huge list": func(t *testing.T, folder, _ string) {
			require.NoError(t, os.Truncate(put(t, "", folder, stampFile), 2<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, away := t.TempDir(), t.TempDir()
			prepare(t, folder, away)
			before := filesAndLinks(t, folder, away)
			require.ErrorIs(t, CheckFolder(folder), ErrForeign)
			_, err := a.Unpack(folder, nil)
			require.ErrorIs(t, err, ErrForeign)
			require.ErrorContains(t, err, "move the file away")
			require.Equal(t, before, filesAndLinks(t, folder, away))
		})
	}
}

// filesAndLinks returns the contents of files and the targets of links.
func filesAndLinks(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			require.NoError(t, err)
			if e.Type()&os.ModeSymlink != 0 {
				found[path], err = os.Readlink(path)
			} else if e.Type().IsRegular() {
				info, statErr := e.Info()
				require.NoError(t, statErr)
				var text []byte
				text, err = os.ReadFile(path)
				found[path] = info.ModTime().String() + string(text)
			}
			return err
		}))
	}
	return found
}

func TestFolderOfOthersIsRefused(t *testing.T) {
	a, err := open(wheel(t, good()), false)
	require.NoError(t, err)
	parent := t.TempDir()
	require.NoError(t, os.Chmod(parent, 0o777))
	for _, folder := range []string{parent, filepath.Join(parent, "new")} {
		_, err = a.Unpack(folder, nil)
		require.ErrorIs(t, err, trust.ErrUntrusted)
		require.ErrorIs(t, CheckFolder(folder), trust.ErrUntrusted)
	}
	require.Empty(t, files(t, parent))
	require.NoDirExists(t, filepath.Join(parent, "new"))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(parent, 0o755))
		require.NoError(t, os.Chown(parent, 4711, 4711))
		_, err = a.Unpack(parent, nil)
		require.ErrorIs(t, err, trust.ErrUntrusted)
		require.Empty(t, files(t, parent))
	}
}

// TestListHasTheChecksumsOfTheFiles compares the list with the unpacked files.
func TestListHasTheChecksumsOfTheFiles(t *testing.T) {
	a, err := open(wheel(t, good()), false)
	require.NoError(t, err)
	folder := t.TempDir()
	_, err = a.Unpack(folder, nil)
	require.NoError(t, err)
	got := files(t, folder)
	var list Installed
	require.NoError(t, json.Unmarshal([]byte(got[stampFile]), &list))
	delete(got, stampFile)
	require.Len(t, list.Sums, len(got))
	for name, text := range got {
		require.Equal(t, sumOf([]byte(text)), list.Sums[name], name)
	}
}
