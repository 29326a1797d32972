package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOnlyTheNewestReportsStay requires that old reports are removed, and that files of
// other users with names of reports stay.
func TestOnlyTheNewestReportsStay(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("report"), 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	var reports []string // reports lists the names of reports, the newest first
	for i := range 9 {
		reports = append(reports, put(fmt.Sprintf("sdnpu-crash-%d.txt", 100-i), time.Duration(i)*time.Hour))
	}
	kept := []string{put("sdnpu-crash-1.log", 100*time.Hour), put("my-sdnpu-crash-1.txt", 100*time.Hour)}
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	link := filepath.Join(dir, "sdnpu-crash-link.txt")
	require.NoError(t, os.Symlink(victim, link))
	folder := filepath.Join(dir, "sdnpu-crash-folder.txt")
	require.NoError(t, os.Mkdir(folder, 0o700))
	kept = append(kept, victim, link)
	if os.Geteuid() == 0 {
		foreign := put("sdnpu-crash-foreign.txt", 100*time.Hour)
		require.NoError(t, os.Chown(foreign, 65534, 65534))
		kept = append(kept, foreign)
	}

	require.NoError(t, removeOldReports(dir, 4))
	for i, path := range reports {
		if i < 4 {
			require.FileExists(t, path)
		} else {
			require.NoFileExists(t, path)
		}
	}
	for _, path := range kept {
		_, err := os.Lstat(path)
		require.NoError(t, err)
	}
	require.DirExists(t, folder)
	require.NoError(t, removeOldReports(dir, 40))
	require.FileExists(t, reports[3])
}
