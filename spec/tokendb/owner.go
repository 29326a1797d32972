package tokendb

import (
	"fmt"
	"os"
)

// Owner reads whose database is in a folder: the options that open it for
// reading.
func Owner(dir string) (Options, error) {
	d := disk{dir: dir}
	b, err := os.ReadFile(d.path(manifestName))
	if err != nil {
		return Options{}, fmt.Errorf("tokendb: %w", err)
	}
	m, err := parseManifest(b)
	if err != nil {
		return Options{}, fmt.Errorf("tokendb: %s: %w", dir, err)
	}
	return Options{Fingerprint: m.fingerprint, Vocab: int(m.vocab), ReadOnly: true}, nil
}
