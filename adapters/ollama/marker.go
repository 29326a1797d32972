package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MarkerFile lists what [Lay] has put into a folder. MarkerFile is written
// before the first file and removed after the last one, so an interrupted call
// can be repeated.
const MarkerFile = ".sdnpu-install.json"

const markerSchema = "sdnpu-install-1"

// ErrForeign is returned for files that this program did not write.
var ErrForeign = errors.New("sdnpu did not write it")

// ErrNotLaid is returned for a folder that is no installation.
var ErrNotLaid = errors.New("no installation of sdnpu")

type marker struct {
	Schema string   `json:"schema"`
	Files  []laying `json:"files"`
}

// laying is one file of a layout.
type laying struct {
	// Path is relative to the folder, with slashes.
	Path string `json:"path"`
	// From is the absolute path of the file that a link leads to or that was copied.
	From string `json:"from"`
	// SHA256 is the checksum of a copy. SHA256 is empty for a symbolic link.
	SHA256 string `json:"sha256,omitempty"`
}

func (l laying) in(dir string) string { return filepath.Join(dir, filepath.FromSlash(l.Path)) }

// isOurs reports whether the file at its path is the one that was written. A hard
// link that changed together with its source is.
func (l laying) isOurs(dir string) bool {
	path := l.in(dir)
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(path)
		return err == nil && to == l.From
	}
	if !info.Mode().IsRegular() || l.SHA256 == "" {
		return false
	}
	sum, err := sumOf(path)
	return err == nil && (sum == l.SHA256 || sameFile(path, l.From))
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// readMarker returns the list of a folder. Without a marker it recognizes the
// layout of an earlier version, which has no other files; an empty or missing
// folder has an empty list.
func readMarker(dir string) ([]laying, error) {
	text, err := os.ReadFile(filepath.Join(dir, MarkerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return adopt(dir)
	}
	if err != nil {
		return nil, err
	}
	var m marker
	if err := json.Unmarshal(text, &m); err != nil || m.Schema != markerSchema {
		return nil, fmt.Errorf("%s is damaged or of another version: remove the folder yourself", filepath.Join(dir, MarkerFile))
	}
	for _, l := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(l.Path)) {
			return nil, fmt.Errorf("%s names %s, which lies in another folder", filepath.Join(dir, MarkerFile), l.Path)
		}
	}
	return m.Files, nil
}

// adopt lists the layout of a version that wrote no marker: bin/ollama, and in
// lib/ollama this program, its copies and symbolic links. Any other file makes the
// folder foreign.
func adopt(dir string) (files []laying, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() && slices.Contains([]string{".", "bin", "lib", "lib/ollama"}, rel) {
			return nil
		}
		l := laying{Path: rel}
		if e.Type()&fs.ModeSymlink != 0 && strings.HasPrefix(rel, "lib/ollama/") {
			l.From, err = os.Readlink(path)
		} else if e.Type().IsRegular() && (rel == "bin/"+exe("ollama") || IsBuildOfThisProgram(path)) {
			l.SHA256, err = sumOf(path)
		} else {
			return fmt.Errorf("%s: %w: name a folder that is new or empty", path, ErrForeign)
		}
		files = append(files, l)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	isProgram := func(l laying) bool { return l.Path == "lib/ollama/"+exe("llama-server") && l.SHA256 != "" }
	if err == nil && len(files) > 0 && !slices.ContainsFunc(files, isProgram) {
		return nil, fmt.Errorf("%s: %w: name a folder that is new or empty", dir, ErrForeign)
	}
	return files, err
}

// writeMarker replaces the list of a folder.
func writeMarker(dir string, files []laying) error {
	text, err := json.MarshalIndent(marker{markerSchema, files}, "", "\t")
	if err != nil {
		return err
	}
	temporary := newName(filepath.Join(dir, MarkerFile))
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, MarkerFile))
}

// newName returns the name of a file until it is complete.
func newName(path string) string {
	return filepath.Join(filepath.Dir(path), ".sdnpu-new-"+filepath.Base(path))
}
