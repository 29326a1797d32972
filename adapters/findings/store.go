package findings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/signing"
)

// Folders of the image cache, one per kind of result. Each result is a JSON file.
const (
	RangesFolder   = "ranges"
	ChecksFolder   = "checks"
	FlipsFolder    = "flips"
	ProfilesFolder = "profiles"

	// FileSuffix ends the name of each result file.
	FileSuffix = ".json"
)

// Kinds of results, as [Entry.Kind].
const (
	RangesKind  = "ranges"
	CheckKind   = "check"
	FlipsKind   = "flips"
	ProfileKind = "profile"
)

// folders maps each kind to its folder.
var folders = map[string]string{
	RangesKind: RangesFolder, CheckKind: ChecksFolder, FlipsKind: FlipsFolder, ProfileKind: ProfilesFolder,
}

// Store reads and writes results. The zero value keeps nothing.
type Store struct {
	// Cache is the folder of the image cache. If it is empty, nothing is kept.
	Cache string
	// Prepared lists folders of images that were compiled on another machine.
	// Ranges in them take precedence over those in the cache.
	Prepared []string
	// Keys are accepted as signers of prepared folders.
	Keys []signing.PublicKey
	// CheckCodes compares rounded weights with their checksums before they are used. It reads
	// all of them; otherwise only those that are compiled are read.
	CheckCodes bool
	// GateOff permits recipes that failed their gate.
	GateOff bool
}

// CheckWritable reports an error if a folder of the cache cannot be written.
// Callers check before they measure for minutes. A store without a cache writes
// nothing, which is no error.
func (s Store) CheckWritable(folder string) error {
	if s.Cache == "" {
		return nil
	}
	path := filepath.Join(s.Cache, folder)
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = atomicfile.CheckWritable(filepath.Join(path, "probe"))
	}
	if err != nil {
		return fmt.Errorf("the image cache cannot be written: %w: set SDNPU_CACHE to a folder that can be written, or to off", err)
	}
	return nil
}

// Entry describes a result file.
type Entry struct {
	// Kind is RangesKind, CheckKind, FlipsKind or ProfileKind.
	Kind string
	// Key is the file name without its suffix.
	Key, Path string
	// Bytes includes the rounded weights that belong to ranges.
	Bytes   int64
	LastUse time.Time
	// Model, Digest, Recipe and Device are empty if the file does not name them.
	Model, Digest, Recipe, Device string
	// Damage is the error that prevents reading the file, or nil.
	Damage error
}

// header holds the fields of a result file that describe it. Ranges, checks and
// flips name one model; profiles list all models that they are for.
type header struct {
	Model  string                     `json:"model"`
	Digest string                     `json:"digest"`
	Recipe string                     `json:"recipe"`
	Device string                     `json:"device"`
	Models map[string]json.RawMessage `json:"models"`
}

// List returns all results by kind, the most recently used first.
func (s Store) List() (entries []Entry, err error) {
	for _, kind := range slices.Sorted(maps.Keys(folders)) {
		folder := filepath.Join(s.Cache, folders[kind])
		files, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		first := len(entries)
		for _, f := range files {
			key, isResult := strings.CutSuffix(f.Name(), FileSuffix)
			if !isResult || strings.HasPrefix(key, ".") || !f.Type().IsRegular() {
				continue
			}
			info, err := f.Info()
			if err != nil { // removed since ReadDir
				continue
			}
			e := Entry{Kind: kind, Key: key, Path: filepath.Join(folder, f.Name()), Bytes: info.Size(), LastUse: info.ModTime()}
			if codes, err := os.Stat(CodesPath(e.Path)); err == nil {
				e.Bytes += codes.Size()
			}
			e.readHeader()
			entries = append(entries, e)
		}
		slices.SortStableFunc(entries[first:], func(a, b Entry) int { return b.LastUse.Compare(a.LastUse) })
	}
	return entries, nil
}

// readHeader fills the fields that the file itself contains.
func (e *Entry) readHeader() {
	data, err := os.ReadFile(e.Path)
	var h header
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		e.Damage = err
		return
	}
	e.Model, e.Digest, e.Recipe, e.Device = h.Model, h.Digest, h.Recipe, h.Device
	if e.Model == "" {
		e.Model = strings.Join(slices.Sorted(maps.Keys(h.Models)), ", ")
	}
}

// Remove deletes the files of an entry. Files that no longer exist are no error.
func (e *Entry) Remove() error {
	var errs []error
	for _, path := range []string{e.Path, CodesPath(e.Path)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
