package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/backend"
)

// manifestFile stands beside prepared images and says what they are for. It
// decides nothing: the images' own keys do.
const (
	manifestFile   = "manifest.json"
	manifestLimit  = 4 << 20
	manifestSchema = "sdnpu-prepared-1"
)

// fillPrepared says how a folder gets images.
const fillPrepared = "sdnpu prepare MODEL.gguf --soc CHIP -o DIR on a PC"

// preparedManifest holds every key that decides whether images are valid, as
// people read them.
type preparedManifest struct {
	Schema  string        `json:"schema"`
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

// readManifest reads a folder's.
func readManifest(folder string) (*preparedManifest, error) {
	f, err := os.Open(filepath.Join(folder, manifestFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var m preparedManifest
	if err := json.NewDecoder(io.LimitReader(f, manifestLimit)).Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if m.Schema != manifestSchema {
		return nil, fmt.Errorf("%s: schema %q, this program reads %s", f.Name(), m.Schema, manifestSchema)
	}
	return &m, nil
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

// announcePrepared tells which prepared images a load can take, and why it
// cannot take others: it compiles then.
func (s settings) announcePrepared(digest string, c backend.Capabilities, logger *slog.Logger) {
	for _, folder := range s.prepared {
		m, err := readManifest(folder)
		switch {
		case err != nil:
			logger.Warn("no prepared images: what the cache lacks is compiled here", "folder", folder, "reason", err,
				"remedy", "take the folder out of SDNPU_PREPARED, or fill it: "+fillPrepared)
		case m.Model.Digest != digest: // of another model: folders are for many
			logger.Debug("prepared images of another model", "folder", folder, "model", m.Model.Name)
		case m.unfit(c) != "":
			logger.Warn("prepared images are not used", "folder", folder, "reason", m.unfit(c))
		default:
			logger.Info("prepared images", "folder", folder, "recipe", m.Recipe, "rows", m.Rows, "contexts", m.Contexts)
		}
	}
}

// lookAtPrepared is the doctor's part.
func (s settings) lookAtPrepared(c *backend.Capabilities) (findings []finding) {
	for _, folder := range s.prepared {
		f := finding{what: "prepared"}
		m, err := readManifest(folder)
		if err != nil {
			f.remedy = fmt.Sprintf("%v: fill it (%s), or take it out of SDNPU_PREPARED", err, fillPrepared)
			findings = append(findings, f)
			continue
		}
		f.found = fmt.Sprintf("%s: %s, %s, contexts %s, rows %s, %s", folder, m.Model.Name, m.Recipe, commas(m.Contexts), commas(m.Rows), bytesText(m.bytes()))
		if c != nil {
			f.remedy = m.unfit(*c)
		}
		findings = append(findings, f)
	}
	return findings
}
