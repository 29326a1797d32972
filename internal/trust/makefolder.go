package trust

import (
	"errors"
	"io/fs"
	"os"
)

// MakeFolder creates a folder and the folder's missing parents with the permissions `mode`.
// MakeFolder does not change a folder that exists. If a user other than root and the user
// of this process can change the folder or one on the way to it, MakeFolder creates nothing
// and the error is [ErrUntrusted].
func MakeFolder(dir string, mode fs.FileMode) error {
	if err := Check(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// MakeFolder trusts every folder on the way that exists.
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return Check(dir)
}
