package imagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/backend/mapped"
)

const (
	suffix    = ".image"
	tempNames = "put-*.tmp"
	// tempAge is when a file that is still being written counts as left
	// behind: longer than any compilation between two writes. With a writer
	// that is known to have died, deadAge suffices: it covers the moments in
	// which a living one does not hold its file.
	tempAge = 24 * time.Hour
	deadAge = time.Minute
)

// Options tunes a Store. The zero value is ready to use.
type Options struct {
	// Logger is told of damaged files. Nil means silence.
	Logger *slog.Logger
}

// Store keeps images in a folder. Its methods may be called from any
// goroutine.
type Store struct {
	dir    string
	logger *slog.Logger
	create func(dir string) (file, error) // replaced by tests that break it
}

// Open makes the folder where it is missing, private to the user, and removes
// what dead processes left in it.
func Open(dir string, options Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("imagecache: %w", err)
	}
	s := &Store{dir: dir, logger: options.Logger, create: createTemp}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.removeLeftovers()
	return s, nil
}

// Dir is the folder.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(key string) string { return filepath.Join(s.dir, key+suffix) }

func (s *Store) removeLeftovers() {
	names, err := filepath.Glob(filepath.Join(s.dir, tempNames))
	if err != nil { // a folder whose name is a broken pattern keeps its leftovers
		s.logger.Warn("cannot look for leftovers in the image cache", "error", err)
	}
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil || !leftBehind(name, info) {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.logger.Warn("cannot remove a leftover of the image cache", "error", err)
		}
	}
}

func leftBehind(name string, info fs.FileInfo) bool {
	age := time.Since(info.ModTime())
	return age >= tempAge || age >= deadAge && info.Mode().IsRegular() && abandoned(name)
}

// Entry is an image in memory.
type Entry struct {
	file  *mapped.File
	bytes []byte
}

// Bytes is the image, read-only and valid until Close.
func (e *Entry) Bytes() []byte { return e.bytes }

// Close gives the memory back. It may be called twice.
func (e *Entry) Close() error {
	e.bytes = nil
	if err := e.file.Close(); err != nil {
		return fmt.Errorf("imagecache: %w", err)
	}
	return nil
}

// Get maps the image of a key after checking every byte of it. Without a valid
// one the error is [ErrMiss].
func (s *Store) Get(key string) (*Entry, error) {
	want, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	path := s.path(key)
	f, err := mapped.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imagecache: %s: %w", key, ErrMiss)
	}
	if err != nil {
		s.logger.Warn("cannot read an image from the cache", "error", err)
		return nil, fmt.Errorf("imagecache: %s: %w: %w", key, ErrMiss, err)
	}
	image, err := check(f.Bytes(), want)
	if err == nil {
		return &Entry{file: f, bytes: image}, nil
	}
	s.discard(path, f, err)
	return nil, fmt.Errorf("imagecache: %s: %w: %w", key, ErrMiss, err)
}

// discard removes a damaged file, so that its bytes do not lie about for ever.
// A file that another process has put in its place meanwhile goes with it,
// which costs one compilation.
func (s *Store) discard(path string, f *mapped.File, reason error) {
	s.logger.Warn("removing an image from the cache: it will be compiled again", "file", path, "reason", reason)
	if err := errors.Join(f.Close(), os.Remove(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("cannot remove an image from the cache", "error", err)
	}
}
