package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/backend/imagecache"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or clear the images that models were compiled to",
		Long: "Cache looks after the folder of compiled images. It may run beside models that run:\n" +
			"what a process uses is never removed.\n\n" +
			"In folders of the cache lies what calibrate, check and profile found (ranges/, checks/,\n" +
			"profiles/): list shows it behind the images, clear removes it with them.\n\n" +
			"SDNPU_CACHE names the folder, SDNPU_CACHE_SIZE what it keeps (8GiB, 20% of the disk,\n" +
			"unlimited; default: 20%, at most 16GiB): images used least recently go first.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheVerify(), newCacheClear())
	return cmd
}

// cacheEntry is an image as --json prints it, or another file in the cache.
type cacheEntry struct {
	// Kind is image, ranges, check or profile.
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Model   string    `json:"model"`
	Graphs  string    `json:"graphs"`
	Rows    string    `json:"rows"`
	Context string    `json:"context"`
	Recipe  string    `json:"recipe"`
	Bytes   int64     `json:"bytes"`
	LastUse time.Time `json:"last_use"`
	InUse   bool      `json:"in_use"`
	Device  string    `json:"device"`
	// Fingerprint is all of the device that decides whether the image is valid.
	Fingerprint string `json:"fingerprint"`
	// Damage is what is wrong with it, empty for nothing.
	Damage  string `json:"damage,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	// Kept is why verify --fix did not remove it, empty where it did or need not.
	Kept string `json:"kept,omitempty"`

	verified     bool   // every byte was read, not the head alone
	path, digest string // the file, and the model's digest where it is known
}

// imageKind is the kind of an image.
const imageKind = "image"

func entryOf(i imagecache.Info) cacheEntry {
	e := cacheEntry{
		Kind: imageKind, Key: i.Key, path: i.Path, digest: i.Label["digest"], Model: i.Label["model"], Graphs: i.Label["graphs"], Rows: i.Label["rows"], Context: i.Label["context"],
		Recipe: i.Label["recipe"], Bytes: i.Size, LastUse: i.Used, InUse: i.InUse,
		Device: i.Label["device"], Fingerprint: i.Label["fingerprint"],
	}
	if i.Damage != nil {
		e.Damage = i.Damage.Error()
	}
	return e
}

// state is the last column of the table.
func (e cacheEntry) state() string {
	switch {
	case e.Removed:
		return "removed: " + e.Damage
	case e.Kept != "":
		return e.Damage + ", cannot be removed: " + e.Kept
	case e.Damage != "":
		return e.Damage
	case e.InUse:
		return "in use"
	case !e.verified:
		return "not verified"
	}
	return "ok"
}

// what is the graphs of an image, and the kind of other files.
func (e cacheEntry) what() string {
	if e.Kind == imageKind {
		return e.Graphs
	}
	return e.Kind
}

// deviceName is a device's name alone, of which checks and profiles keep all
// that describe tells.
func deviceName(device string) string {
	name, _, _ := strings.Cut(device, ", ")
	return name
}

// cacheFlags are those that all three commands have.
type cacheFlags struct{ json bool }

func (f *cacheFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON array of objects, one per file")
}

// print prints a table, or the array.
func (f *cacheFlags) print(w io.Writer, entries []cacheEntry) error {
	if f.json {
		if entries == nil {
			entries = []cacheEntry{}
		}
		return json.NewEncoder(w).Encode(entries)
	}
	if len(entries) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tMODEL\tGRAPHS\tROWS\tCONTEXT\tRECIPE\tSIZE\tLAST USE\tDEVICE\tSTATE")
	for _, e := range entries {
		fmt.Fprintf(t, "%.*s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", keyDigits, e.Key, e.Model, e.what(), e.Rows, e.Context, e.Recipe,
			bytesText(e.Bytes), e.LastUse.Format("2006-01-02 15:04"), deviceName(e.Device), e.state())
	}
	return t.Flush()
}

// openCacheFolder opens the folder that the settings name.
func openCacheFolder(cmd *cobra.Command) (settings, *imagecache.Store, error) {
	s, err := readSettings()
	if err != nil {
		return s, nil, err
	}
	if s.cache == "" {
		return s, nil, errors.New("SDNPU_CACHE=off: there is no cache")
	}
	store, err := s.openStore(newLogger(cmd.ErrOrStderr(), false))
	return s, store, err
}

func newCacheList() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images: model, graphs, rows, context, recipe, size, last use, device; verify reads them whole",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			var entries []cacheEntry
			var total int64
			for _, i := range list {
				entries = append(entries, entryOf(i))
				total += i.Size
			}
			others, err := s.kept()
			if err != nil {
				return err
			}
			if err := f.print(cmd.OutOrStdout(), append(entries, others...)); err != nil || f.json {
				return err
			}
			limit := "no limit"
			if store.Limit() > 0 {
				limit = "limit " + bytesText(store.Limit())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d images, %s of %s in %s\n", len(list), bytesText(total), limit, store.Dir())
			if text := keptText(others); text != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "and, outside the limit, %s\n", text)
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}
