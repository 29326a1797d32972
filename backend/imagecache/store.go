package imagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/backend/filelock"
	"github.com/sdnpu/sdnpu/backend/mapped"
)

const (
	suffix     = ".image"
	lockSuffix = ".lock"
	tempNames  = "put-*.tmp"
	// tempAge is when a file that is still being written counts as left
	// behind: longer than any compilation between two writes. With a writer
	// that is known to have died, deadAge suffices: it covers the moments in
	// which a living one does not hold its file.
	tempAge = 24 * time.Hour
	deadAge = time.Minute
	// lookTime is how long a reader waits for one who holds a file
	// exclusively, which is done for moments: to look whether it is in use, or
	// to remove it. Only a machine that stops that process makes it longer.
	lookTime = 30 * time.Second
)

// Options tunes a Store. The zero value is ready to use.
type Options struct {
	// Limit is how many bytes the folder keeps, images in use aside. Zero means
	// no limit.
	Limit int64
	// Keep lets nothing be removed to make room, whatever the limit: the folder is
	// no cache but what somebody asked for.
	Keep bool
	// Prepared are folders of images that others made: what the store lacks is
	// taken from there. Nothing in them is changed.
	Prepared []string
	// Logger is told of damaged files and of what is removed. Nil means silence.
	Logger *slog.Logger
}

// Store keeps images in a folder. Its methods may be called from any
// goroutine.
type Store struct {
	dir      string
	limit    int64
	keep     bool
	prepared []string
	logger   *slog.Logger
	create   func(dir string) (file, error) // replaced by tests that break it
}

// Open makes the folder where it is missing, private to the user, and removes
// what dead processes left in it.
func Open(dir string, options Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("imagecache: %w", err)
	}
	s := &Store{dir: dir, limit: options.Limit, keep: options.Keep, prepared: options.Prepared, logger: options.Logger, create: createTemp}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.removeLeftovers()
	return s, nil
}

// Dir is the folder.
func (s *Store) Dir() string { return s.dir }

// Limit is how many bytes the folder keeps, 0 for all.
func (s *Store) Limit() int64 { return s.limit }

func (s *Store) path(key string) string { return filepath.Join(s.dir, key+suffix) }

// removeLeftovers removes what nobody writes or holds any more.
func (s *Store) removeLeftovers() {
	for _, name := range s.leftovers() {
		info, err := os.Lstat(name)
		if err != nil || !leftBehind(name, info) {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.logger.Warn("cannot remove a leftover of the image cache", "error", err)
		}
	}
}

// leftovers are the files of ours that are no images.
func (s *Store) leftovers() []string {
	var names []string
	for _, pattern := range []string{tempNames, "*" + lockSuffix} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil { // a folder whose name is a broken pattern keeps them
			s.logger.Warn("cannot look for leftovers in the image cache", "error", err)
		}
		names = append(names, found...)
	}
	return names
}

func leftBehind(name string, info fs.FileInfo) bool {
	age := time.Since(info.ModTime())
	return age >= tempAge || age >= deadAge && info.Mode().IsRegular() && abandoned(name)
}

// abandoned reports whether nobody holds a file any more; without locks it
// cannot tell.
func abandoned(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return filelock.Try(f, true) == nil
}

// Entry is an image in memory.
type Entry struct {
	held  *os.File // keeps it from being removed
	file  *mapped.File
	bytes []byte
}

// Bytes is the image, read-only and valid until Close.
func (e *Entry) Bytes() []byte { return e.bytes }

// Close gives the memory back. It may be called twice.
func (e *Entry) Close() error {
	if e.bytes == nil && e.held == nil {
		return nil
	}
	err := errors.Join(e.file.Close(), e.held.Close())
	e.bytes, e.held = nil, nil
	if err != nil {
		return fmt.Errorf("imagecache: %w", err)
	}
	return nil
}

// Get maps the image of a key after checking every byte of it, and notes the
// use. Without a valid one, here or among the prepared, the error is [ErrMiss].
func (s *Store) Get(key string) (*Entry, error) {
	want, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	e, err := s.own(key, want)
	if !errors.Is(err, ErrMiss) {
		return e, err
	}
	for _, folder := range s.prepared {
		path := filepath.Join(folder, key+suffix)
		e, damage := openEntry(path, want)
		switch {
		case damage == nil:
			return e, nil
		case errors.Is(damage, fs.ErrNotExist):
			continue
		case e != nil:
			damage = errors.Join(damage, e.Close())
		}
		s.logger.Warn("a prepared image cannot be used", "file", path, "reason", damage)
	}
	return nil, err
}

// Has reports whether there is a file for a key, here or among the prepared,
// sound or not.
func (s *Store) Has(key string) bool {
	for _, folder := range append([]string{s.dir}, s.prepared...) {
		if info, err := os.Stat(filepath.Join(folder, key+suffix)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// own is Get in the store's own folder.
func (s *Store) own(name string, want key) (*Entry, error) {
	path := s.path(name)
	e, err := openEntry(path, want)
	switch {
	case err == nil:
		now := time.Now()
		_ = os.Chtimes(path, now, now) // of a folder that can only be read, the order of use is not kept
		return e, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("imagecache: %s: %w", name, ErrMiss)
	case errors.Is(err, errDamaged):
		s.logger.Warn("removing an image from the cache: it will be compiled again", "file", path, "reason", err)
		if err := discard(path, e); err != nil {
			s.logger.Warn("cannot remove an image from the cache", "error", err)
		}
	default:
		s.logger.Warn("cannot read an image from the cache", "error", err)
	}
	return nil, fmt.Errorf("imagecache: %s: %w: %w", name, ErrMiss, err)
}

// openEntry maps and checks a file. One that is damaged comes open beside the error,
// unless it is a link.
func openEntry(path string, want key) (*Entry, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%w: it is a symbolic link", errDamaged)
	}
	f, err := openShared(path)
	if err != nil {
		return nil, err
	}
	m, err := mapped.Map(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	e := &Entry{held: f, file: m}
	e.bytes, err = check(m.Bytes(), want)
	return e, err
}

// openShared opens a file as one of its users.
func openShared(path string) (*os.File, error) {
	began := time.Now()
	for {
		// Looked at before it is opened: opening a pipe waits for its writer.
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is %w (%s)", path, mapped.ErrNotRegular, info.Mode().Type())
		}
		f, err := openHeld(path, os.O_RDONLY, false)
		if !errors.Is(err, filelock.ErrHeld) || time.Since(began) > lookTime {
			return f, err
		}
		time.Sleep(time.Millisecond)
	}
}

// discard removes a damaged file, so that its bytes do not lie about for ever.
// e is the file as it was opened, nil for a link.
func discard(path string, e *Entry) error {
	if e == nil {
		return os.Remove(path)
	}
	ours, err := e.held.Stat()
	if closed := e.Close(); err != nil || closed != nil {
		return errors.Join(err, closed)
	}
	// A whole file may have come into its place meanwhile. One that comes after
	// this look goes with it, which costs one compilation.
	there, err := os.Stat(path)
	if err == nil && os.SameFile(ours, there) {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
