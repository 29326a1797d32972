package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Key names everything that decides whether a profile still holds: any change
// of it is another profile. Widths are not in it, as plans for any two of those
// that were measured can be made of one profile; the newest profile counts.
type Key struct {
	// Fingerprint is the device's, Digest the model's. Clock says in whose time an
	// emulator was asked to run, empty for a device's own.
	Fingerprint, Clock, Digest, Recipe string
	Blocks, Slots                      int
}

func (k Key) file() string {
	h := sha256.Sum256(fmt.Appendf(nil, "sdnpu profile 2\n%s\n%s\n%s\n%s\n%d\n%d\n", k.Fingerprint, k.Clock, k.Digest, k.Recipe, k.Blocks, k.Slots))
	return hex.EncodeToString(h[:12]) + ".json"
}

// Folder keeps profiles, a file each. It need not exist before the first Put.
type Folder string

// Path is where the profile of a key is, or would be.
func (f Folder) Path(k Key) string { return filepath.Join(string(f), k.file()) }

// Get returns a profile, or [os.ErrNotExist]. One that cannot be read is an
// error of its own: it is to be measured anew.
func (f Folder) Get(k Key) (*graphswap.Profile, error) {
	data, err := os.ReadFile(f.Path(k))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	p, err := graphswap.ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("profile: %s: %w", f.Path(k), err)
	}
	return p, nil
}

// Put writes a profile, whole or not at all.
func (f Folder) Put(k Key, p *graphswap.Profile) (err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	text, err := Text(p)
	if err != nil {
		return err
	}
	t, err := os.CreateTemp(string(f), ".profile-*")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = t.Write(text)
	err = errors.Join(err, t.Close())
	if err == nil {
		err = os.Rename(t.Name(), f.Path(k))
	}
	if err != nil {
		err = fmt.Errorf("profile: %w", errors.Join(err, os.Remove(t.Name())))
	}
	return err
}

// Text is a profile as its file holds it.
func Text(p *graphswap.Profile) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return []byte(b.String()), nil
}
