package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What calibrate, check, profile and doctor find is kept in folders of the image cache,
// a file of JSON each.
const (
	rangesFolder   = "ranges"
	checksFolder   = "checks"
	profilesFolder = "profiles"
	profileKind    = "profile"
	keptFileSuffix = ".json"
)

// keptFolders are those folders, each with what a file in it is.
func (s settings) keptFolders() map[string]string {
	return map[string]string{
		"ranges":    filepath.Join(s.cache, rangesFolder),
		"check":     filepath.Join(s.cache, checksFolder),
		"flips":     filepath.Join(s.cache, flipsFolder),
		profileKind: string(s.profiles()),
	}
}

// canKeep reports whether a folder of the cache can be written, before there is
// something to write: work of minutes would be lost. Without a cache nothing is kept.
func (s settings) canKeep(folder string) error {
	if s.cache == "" {
		return nil
	}
	path := filepath.Join(s.cache, folder)
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = checkWritable(filepath.Join(path, "probe"))
	}
	if err != nil {
		return fmt.Errorf("the image cache cannot be written: %w: set SDNPU_CACHE to a folder that can, or to off", err)
	}
	return nil
}

// keptFile is what such files say about themselves: ranges and checks name their
// model, profiles those that they are of.
type keptFile struct {
	Model  string                     `json:"model"`
	Digest string                     `json:"digest"`
	Recipe string                     `json:"recipe"`
	Device string                     `json:"device"`
	Models map[string]json.RawMessage `json:"models"`
}

// kept lists the files in the folders, those used last first within each kind.
func (s settings) kept() (entries []cacheEntry, err error) {
	folders := s.keptFolders()
	for _, kind := range slices.Sorted(maps.Keys(folders)) {
		files, err := os.ReadDir(folders[kind])
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			name, ours := strings.CutSuffix(f.Name(), keptFileSuffix)
			if !ours || strings.HasPrefix(name, ".") || !f.Type().IsRegular() {
				continue
			}
			info, err := f.Info()
			if err != nil { // it has just gone
				continue
			}
			e := cacheEntry{Kind: kind, Key: name, Bytes: info.Size(), LastUse: info.ModTime(), path: filepath.Join(folders[kind], f.Name()), verified: true}
			if codes, err := os.Stat(codesBeside(e.path)); err == nil { // of ranges
				e.Bytes += codes.Size()
			}
			e.describe()
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b cacheEntry) int {
		if a.Kind != b.Kind {
			return strings.Compare(a.Kind, b.Kind)
		}
		return b.LastUse.Compare(a.LastUse)
	})
	return entries, nil
}

// describe reads what the entry's file says about itself.
func (e *cacheEntry) describe() {
	data, err := os.ReadFile(e.path)
	var f keptFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		e.Damage = err.Error()
		return
	}
	e.Model, e.Recipe, e.Device, e.digest = f.Model, f.Recipe, f.Device, f.Digest
	if e.Model == "" {
		e.Model = strings.Join(slices.Sorted(maps.Keys(f.Models)), ", ")
	}
}

// keptText counts the files of each kind, "" for none.
func keptText(entries []cacheEntry) string {
	count, bytes := map[string]int{}, int64(0)
	for _, e := range entries {
		count[e.Kind]++
		bytes += e.Bytes
	}
	var parts []string
	for _, kind := range []struct{ one, many string }{{"ranges", "ranges"}, {"check", "checks"}, {"flips", "flips"}, {profileKind, "profiles"}} {
		switch n := count[kind.one]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+kind.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, kind.many))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, ", "), bytesText(bytes))
}
