package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// manifestFile stands beside prepared images and says what they are for, model by
// model. It decides nothing: the images' own keys do.
const (
	manifestFile   = "manifest.json"
	manifestLimit  = 4 << 20
	manifestSchema = "sdnpu-prepared-2"
	// oneSchema is of manifests that are one entry.
	oneSchema = "sdnpu-prepared-1"
)

// fillPrepared says how a folder gets images.
const fillPrepared = "sdnpu prepare MODEL.gguf --soc CHIP -o DIR on a PC"

// preparedFolder is a manifest: an entry for each thing that was prepared.
type preparedFolder struct {
	Schema  string             `json:"schema"`
	Entries []preparedManifest `json:"prepared"`
}

// preparedManifest holds every key that decides whether images are valid, as
// people read them.
type preparedManifest struct {
	Written string        `json:"written_by"`
	Model   preparedModel `json:"model"`
	Chip    preparedChip  `json:"chip"`
	Library struct {
		Provider    string `json:"provider"`
		BuildID     string `json:"build_id"`
		Fingerprint string `json:"fingerprint"`
	} `json:"library"`
	Recipe string `json:"recipe"`
	Rows   []int  `json:"rows"`
	Blocks int    `json:"blocks"`
	// Contexts are the lengths of past that there are graphs for, ascending.
	Contexts  []int           `json:"contexts"`
	Sequences int             `json:"sequences"`
	Images    []preparedImage `json:"images"`
}

type preparedModel struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Digest string `json:"digest"`
}

type preparedChip struct {
	Name string `json:"name"`
	SoC  uint32 `json:"soc"`
	Arch int    `json:"htp_arch,omitempty"`
}

// preparedImage is an image as libQnnSystem describes it.
type preparedImage struct {
	Key     string   `json:"key"`
	Graphs  []string `json:"graphs"`
	Context int      `json:"context"` // 0 for the head
	Bytes   int64    `json:"bytes"`
	// Shared tells that the graphs hold equal weights once.
	Shared        bool   `json:"weights_shared"`
	Format        string `json:"blob_version"`
	SpillBytes    uint64 `json:"spill_bytes"`
	VTCMBytes     uint64 `json:"vtcm_bytes"`
	ConstantBytes uint64 `json:"constant_bytes"`
	SharedBytes   uint64 `json:"shared_bytes"`
}

// rangesName is what the ranges of a model are called beside its images: they
// decide what the graphs are, and calibrating again on another machine would not
// give the same bits.
func rangesName(digest string) string { return "ranges-" + digest + ".json" }

// preparedRanges are where prepared ranges of a model may lie.
func (s settings) preparedRanges(digest string) (paths []string) {
	for _, folder := range s.prepared {
		paths = append(paths, filepath.Join(folder, rangesName(digest)))
	}
	return paths
}

// bytes is the size of all images.
func (m *preparedManifest) bytes() (n int64) {
	for _, i := range m.Images {
		n += i.Bytes
	}
	return n
}

// onlyShared reports whether the blocks' images are all for libraries that load
// shared weights.
func (m *preparedManifest) onlyShared() bool {
	shared := false
	for _, i := range m.Images {
		if !i.Shared && i.Context > 0 { // a block's
			return false
		}
		shared = shared || i.Shared
	}
	return shared
}

// readManifest reads a folder's entries.
func readManifest(folder string) ([]preparedManifest, error) {
	f, err := os.Open(filepath.Join(folder, manifestFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var m struct {
		preparedFolder
		preparedManifest // where there is but one
	}
	if err := json.NewDecoder(io.LimitReader(f, manifestLimit)).Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	switch m.Schema {
	case manifestSchema:
		return m.Entries, nil
	case oneSchema:
		return []preparedManifest{m.preparedManifest}, nil
	}
	return nil, fmt.Errorf("%s: schema %q, this program reads %s and %s", f.Name(), m.Schema, manifestSchema, oneSchema)
}

// keep puts the entry beside those of other models, chips, libraries and settings
// that were prepared into the folder. Of its own, earlier images stay listed: they
// are there. Several processes may do so at once.
func (m *preparedManifest) keep(ctx context.Context, folder string, store *imagecache.Store) error {
	release, err := store.Lock(ctx, fmt.Sprintf("%x", sha256.Sum256([]byte(manifestFile))), func() {})
	if err != nil {
		return err
	}
	defer release()
	all, err := readEarlier(folder)
	if err != nil {
		return err
	}
	entry := *m
	entry.Images = slices.Clone(m.Images)
	if at := slices.IndexFunc(all, m.sameBut); at >= 0 {
		for _, i := range all[at].Images {
			entry.add(i)
		}
		all[at] = entry
	} else {
		all = append(all, entry)
	}
	return writeFile(ctx, filepath.Join(folder, manifestFile), 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(preparedFolder{manifestSchema, all})
	})
}

// readEarlier reads what is kept beside a new entry; a folder may have none.
func readEarlier(folder string) ([]preparedManifest, error) {
	all, err := readManifest(folder)
	var unread *fs.PathError
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist):
		return all, nil
	case errors.As(err, &unread): // it is not known to be a manifest
		return nil, fmt.Errorf("%w: name a folder that can be read and written", err)
	}
	return nil, fmt.Errorf("%w: remove it, which loses no image, or name another folder", err)
}

// sameBut tells that two entries differ in their images alone, and in who wrote
// them.
func (m *preparedManifest) sameBut(other preparedManifest) bool {
	mine := *m
	mine.Written, mine.Images, other.Written, other.Images = "", nil, "", nil
	return reflect.DeepEqual(mine, other)
}

// add lists an image that is not listed yet.
func (m *preparedManifest) add(i preparedImage) {
	if !slices.ContainsFunc(m.Images, func(known preparedImage) bool { return known.Key == i.Key }) {
		m.Images = append(m.Images, i)
	}
}

// unfit says why a device cannot take the images, "" where it can.
func (m *preparedManifest) unfit(c backend.Capabilities) string {
	switch {
	case m.Library.Fingerprint == c.Fingerprint && !c.SharesConstants && m.onlyShared():
		return "its images hold the weights of several widths once, which this library does not load: `sdnpu prepare` without --share, or with --twin, makes ones that it loads"
	case m.Library.Fingerprint == c.Fingerprint:
		return ""
	case m.Library.BuildID != c.BuildID:
		return fmt.Sprintf("prepared with library build %s, this one is %s: prepare again with the same release of the runtime", m.Library.BuildID, c.BuildID)
	case fmt.Sprint(m.Chip.SoC) != c.SoC:
		return fmt.Sprintf("prepared for %s (SoC %d), this is SoC %s", m.Chip.Name, m.Chip.SoC, c.SoC)
	}
	return fmt.Sprintf("prepared for %s, this is %s", m.Library.Fingerprint, c.Fingerprint)
}

// preparedOf are a model's entries that a device can take, or if there are none
// those that it cannot.
func preparedOf(all []preparedManifest, digest string, c backend.Capabilities) (list []preparedManifest, fit bool) {
	for _, wanted := range []bool{true, false} {
		for _, m := range all {
			if m.Model.Digest == digest && (m.unfit(c) == "") == wanted {
				list = append(list, m)
			}
		}
		if len(list) > 0 {
			return list, wanted
		}
	}
	return nil, false
}

// announcePrepared tells which prepared images a load can take, and why it
// cannot take others: it compiles then.
func (s settings) announcePrepared(digest string, c backend.Capabilities, logger *slog.Logger) {
	for _, folder := range s.prepared {
		all, err := readManifest(folder)
		if err != nil {
			logger.Warn("no prepared images: what the cache lacks is compiled here", "folder", folder, "reason", err,
				"remedy", "take the folder out of SDNPU_PREPARED, or fill it: "+fillPrepared)
			continue
		}
		list, fit := preparedOf(all, digest, c)
		if len(list) == 0 { // folders are for many
			logger.Debug("prepared images of other models", "folder", folder, "entries", len(all))
		}
		for _, m := range list {
			if fit {
				logger.Info("prepared images", "folder", folder, "recipe", m.Recipe, "rows", m.Rows, "contexts", m.Contexts)
			} else {
				logger.Warn("prepared images are not used", "folder", folder, "reason", m.unfit(c))
			}
		}
	}
}

// lookAtPrepared is the doctor's part.
func (s settings) lookAtPrepared(c *backend.Capabilities) (findings []finding) {
	for _, folder := range s.prepared {
		all, err := readManifest(folder)
		if err != nil {
			findings = append(findings, finding{
				what: "prepared", remedy: fmt.Sprintf("%v: fill it (%s), or take it out of SDNPU_PREPARED", err, fillPrepared),
			})
		}
		if err == nil && len(all) == 0 {
			findings = append(findings, finding{what: "prepared", found: folder + ": nothing was prepared into it"})
		}
		taken := map[string]bool{} // models that have something for this device
		for _, m := range all {
			if c != nil && m.unfit(*c) == "" {
				taken[m.Model.Digest] = true
			}
		}
		for _, m := range all {
			f := finding{what: "prepared"}
			f.found = fmt.Sprintf("%s: %s, %s, contexts %s, rows %s, %s", folder, m.Model.Name, m.Recipe, commas(m.Contexts), commas(m.Rows), bytesText(m.bytes()))
			if c == nil {
				findings = append(findings, f)
				continue
			}
			if reason := m.unfit(*c); !taken[m.Model.Digest] {
				f.remedy = reason
			} else if reason != "" { // beside what this device takes
				f.found += ", not for this device: " + reason
			}
			findings = append(findings, f)
		}
	}
	return findings
}
