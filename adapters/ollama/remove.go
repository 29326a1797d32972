package ollama

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Installation lists the files that [Lay] put into a folder.
type Installation struct {
	Dir   string
	files []laying
}

// Installed reads what a folder holds of ours, or returns [ErrNotLaid].
func Installed(dir string) (*Installation, error) {
	files, err := readMarker(dir)
	if err != nil {
		return nil, fmt.Errorf("ollama: %w", err)
	}
	_, missing := os.Lstat(filepath.Join(dir, MarkerFile))
	if len(files) == 0 && missing != nil {
		return nil, fmt.Errorf("ollama: %s: %w", dir, ErrNotLaid)
	}
	return &Installation{Dir: dir, files: files}, nil
}

// Size returns the number of files and the bytes of the copies among them.
func (i *Installation) Size() (files int, sizeBytes int64) {
	for _, l := range i.files {
		if info, err := os.Lstat(l.in(i.Dir)); err == nil && info.Mode().IsRegular() {
			sizeBytes += info.Size()
		}
	}
	return len(i.files), sizeBytes
}

// Remove removes the files of an installation, and then its folders that are
// empty. Remove returns the files that it left because they were changed. If
// Remove is interrupted, a second call completes it.
func (i *Installation) Remove() (left []string, err error) {
	if _, err := os.Lstat(filepath.Join(i.Dir, MarkerFile)); err != nil { // of an earlier version
		if err := writeMarker(i.Dir, i.files); err != nil {
			return nil, fmt.Errorf("ollama: %w", err)
		}
	}
	for _, l := range i.files {
		path := l.in(i.Dir)
		if err := removeIfExists(newName(path)); err != nil {
			return left, fmt.Errorf("ollama: %w", err)
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !l.isOurs(i.Dir) {
			left = append(left, path)
			continue
		}
		if err := removeIfExists(path); err != nil {
			return left, fmt.Errorf("ollama: %w", err)
		}
	}
	for _, folder := range []string{"lib/ollama", "lib", "bin"} {
		// the call fails if the folder holds files of others
		_ = os.Remove(filepath.Join(i.Dir, filepath.FromSlash(folder)))
	}
	for _, path := range []string{newName(filepath.Join(i.Dir, MarkerFile)), filepath.Join(i.Dir, MarkerFile)} {
		if err := removeIfExists(path); err != nil {
			return left, fmt.Errorf("ollama: %w", err)
		}
	}
	_ = os.Remove(i.Dir) // the call fails if the folder holds files of others
	return left, nil
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
