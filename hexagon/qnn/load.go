package qnn

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/internal/loaderpath"
	"github.com/sdnpu/sdnpu/internal/trust"
)

// openTrusted loads a library whose path other users cannot change. The system's loader
// searches for a name without a folder in its own places and never in this program's.
// openTrusted refuses such a name if the loader would search the current folder.
func openTrusted(path string) (uintptr, error) {
	if filepath.Base(path) != path {
		if err := checkLibrary(path); err != nil {
			return 0, err
		}
	} else if err := loaderpath.Check(); err != nil {
		return 0, err
	}
	return loadLibrary(path)
}

// checkLibrary checks a library and the vendor's other files in its folder, which
// the library loads by itself.
func checkLibrary(path string) error {
	if err := trust.Check(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // the folder can be searched, but not listed; checkLibrary still checks the folder itself
	}
	for _, e := range entries {
		if !strings.Contains(strings.ToLower(e.Name()), "qnn") {
			continue
		}
		if err := trust.Check(filepath.Join(folder, e.Name())); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
