package trust

import (
	"errors"
	"io/fs"
	"os"
)

// MakeFolder creates a folder and its missing parents with the permissions mode. A
// folder that exists is not changed. If users other than this one and root can
// change the folder or one on the way to it, MakeFolder creates nothing and the
// error is [ErrUntrusted].
func MakeFolder(dir string, mode fs.FileMode) error {
	if err := Check(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Every folder on the way that exists is trusted.
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return Check(dir)
}
