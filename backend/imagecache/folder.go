package imagecache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/internal/filelock"
	"github.com/sdnpu/sdnpu/internal/mapped"
)

// Info describes an image in the folder.
type Info struct {
	// Key is the image's key, Path its file.
	Key, Path string
	// Label is the label of the image, or nil if it cannot be read.
	Label Label
	// Size is the file's size in bytes. Used is the time of the last Put or
	// Get.
	Size int64
	Used time.Time
	// InUse reports that a process uses the image.
	InUse bool
	// Damage is the reason why the file is invalid, as far as it was checked,
	// or nil.
	Damage error
	// Unread reports that Damage is a failure to read the file, which may be
	// valid.
	Unread bool
	// Kept is the reason why Verify did not remove a file that it should have
	// removed, or nil.
	Kept error
}

// List returns the images in the folder, the last used one first. It reads only
// the header of each.
func (s *Store) List() ([]Info, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("imagecache: %w", err)
	}
	var list []Info
	for _, entry := range entries {
		key, ok := strings.CutSuffix(entry.Name(), suffix)
		if !ok {
			continue
		}
		want, err := parseKey(key)
		if err != nil { // not a file of the cache
			continue
		}
		info, err := entry.Info()
		if err != nil { // removed in the meantime
			continue
		}
		i := Info{Key: key, Path: s.path(key), Size: info.Size(), Used: info.ModTime()}
		if i.Damage = i.look(want, info); !errors.Is(i.Damage, fs.ErrNotExist) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Key, b.Key)) })
	return list, nil
}

// look reads the header and reports whether the image is in use.
func (i *Info) look(want key, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a regular file (%s)", errDamaged, info.Mode().Type())
	}
	f, err := os.Open(i.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	i.InUse = errors.Is(filelock.Try(f, true), filelock.ErrHeld)
	b := make([]byte, headerSize)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	h, err := parseHeader(b[:n], info.Size())
	if err != nil {
		return err
	}
	i.Label = h.readLabel()
	if h.key != want {
		return fmt.Errorf("%w: it holds the image of key %x", errDamaged, h.key)
	}
	return nil
}

// Verify reads every image completely and passes the result of each to report,
// in the order of List. With fix, it removes damaged images. Files that it
// cannot read or remove stay, and Kept is the reason. Verify returns the error
// of ctx or report.
func (s *Store) Verify(ctx context.Context, fix bool, report func(Info) error) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("imagecache: verify: %w", err)
		}
		want, err := parseKey(i.Key)
		if err != nil {
			return err
		}
		i.verify(want, fix)
		if errors.Is(i.Damage, fs.ErrNotExist) { // removed in the meantime
			continue
		}
		if err := report(i); err != nil {
			return err
		}
	}
	return nil
}

// verify reads the image completely. With fix, it removes a damaged one.
func (i *Info) verify(want key, fix bool) {
	e, err := openEntry(i.Path, want)
	i.Damage = err
	i.Unread = err != nil && !errors.Is(err, errDamaged) && !errors.Is(err, mapped.ErrNotRegular)
	switch {
	case fix && i.Unread:
		i.Kept = err
	case fix && err != nil:
		i.Kept = discard(i.Path, e)
	case e != nil:
		i.Damage = errors.Join(err, e.Close())
	}
}

// Remove removes an image unless a process uses it. It reports whether the
// image is gone.
func (s *Store) Remove(key string) (gone bool, err error) {
	if _, err := parseKey(key); err != nil {
		return false, err
	}
	path := s.path(key)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err == nil && info.Mode().IsRegular() {
		gone, err = removeUnused(path)
	} else if err == nil {
		err = os.Remove(path) // a foreign link or empty folder
		gone = err == nil
	}
	if err != nil {
		return false, fmt.Errorf("imagecache: %w", err)
	}
	return gone, nil
}

func removeUnused(path string) (gone bool, err error) {
	f, err := openHeld(path, os.O_RDONLY, true)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, fs.ErrPermission): // a foreign file, or one without permissions
		err = os.Remove(path)
		return err == nil, err
	case err != nil:
		return false, err
	}
	err = removeHeld(f, path)
	return err == nil, err
}

// Reserve makes room for an image of the given size that the caller is about to
// put. It removes the least recently used images until the folder is within its
// limit and the disk has room. Images in use stay; with [Options.Keep] all
// images stay. If the disk still has no room, the error is [ErrStore]. If
// removing all images would not suffice, Reserve removes none.
func (s *Store) Reserve(size int64) error {
	size += headerSize
	list, err := s.List()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	var held int64
	for _, i := range list {
		held += i.Size
	}
	if free, known := s.free(); s.keep || known && size > free+held {
		return s.fits(size)
	}
	total := size + held
	for _, i := range slices.Backward(list) {
		free, known := s.free()
		if (s.limit == 0 || total <= s.limit) && (!known || size <= free) {
			return nil
		}
		if gone, err := s.Remove(i.Key); err != nil {
			s.logger.Warn("cannot remove an image from the cache", "error", err)
		} else if gone {
			total -= i.Size
			s.logger.Info("removed an image from the cache to make room", "model", i.Label["model"], "graphs", i.Label["graphs"], "bytes", i.Size, "last_use", i.Used)
		}
	}
	return s.fits(size)
}

// fits returns [ErrStore] if the disk does not have size bytes free.
func (s *Store) fits(size int64) error {
	if free, known := s.free(); known && size > free {
		return fmt.Errorf("imagecache: %w: %s has %.1f MiB free, the image takes %.1f MiB", ErrStore, s.dir, float64(free)/(1<<20), float64(size)/(1<<20))
	}
	return nil
}

// free returns the room on the disk, if the system reports it.
func (s *Store) free() (size int64, known bool) {
	size, _, err := Space(s.dir)
	return size, err == nil
}
