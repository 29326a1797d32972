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

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/internal/printable"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or clear compiled images",
		Long: "Manage the folder of compiled images. Models may run at the same time: an image in use is\n" +
			"never removed.\n\n" +
			"The folder also holds the results of calibrate, check, doctor and profile (ranges/, checks/,\n" +
			"flips/, profiles/) and the times that a first start measures (times/). list shows them after\n" +
			"the images, and clear removes them with the images.\n\n" +
			"SDNPU_CACHE names the folder. SDNPU_CACHE_SIZE limits its size (8GiB, 20% of the disk, unlimited;\n" +
			"default: 20%, at most 16GiB). The least recently used images are removed first.",
		Args: cmdline.NoArguments,
		RunE: cmdline.Help,
	}
	cmd.AddCommand(newCacheList(), newCacheVerify(), newCacheClear())
	return cmd
}

// cacheEntry describes an image or a result in the cache, in the form that --json
// prints.
type cacheEntry struct {
	// Kind is "image", "ranges", "check", "flips", "profile", "choice" or "times".
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
	// Fingerprint identifies the device for which the image is valid.
	Fingerprint string `json:"fingerprint"`
	// Damage gives the reason why the file is invalid. Damage is empty if the file is
	// valid.
	Damage  string `json:"damage,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	// Kept gives the reason why verify --fix could not remove the file.
	Kept string `json:"kept,omitempty"`

	verified bool           // verified is set if all bytes of the file were checked, not only the header
	digest   string         // digest identifies the model; empty if it is unknown
	result   findings.Entry // result is the zero value for an image
}

// imageKind is the value of Kind for images.
const imageKind = "image"

func entryOf(i imagecache.Info) cacheEntry {
	e := cacheEntry{
		Kind: imageKind, Key: i.Key, digest: i.Label["digest"], Model: i.Label["model"], Graphs: i.Label["graphs"], Rows: i.Label["rows"], Context: i.Label["context"],
		Recipe: i.Label["recipe"], Bytes: i.Size, LastUse: i.Used, InUse: i.InUse,
		Device: i.Label["device"], Fingerprint: i.Label["fingerprint"],
	}
	if i.Damage != nil {
		e.Damage = i.Damage.Error()
	}
	return e
}

// resultEntries lists the results of other commands that are stored in the cache.
func resultEntries(s launch.Settings) (entries []cacheEntry, err error) {
	results, err := s.Findings().List()
	for _, r := range results {
		e := cacheEntry{
			Kind: r.Kind, Key: r.Key, Model: r.Model, Recipe: r.Recipe, Bytes: r.Bytes, LastUse: r.LastUse, Device: r.Device,
			verified: true, digest: r.Digest, result: r,
		}
		if r.Damage != nil {
			e.Damage = r.Damage.Error()
		}
		entries = append(entries, e)
	}
	return entries, err
}

// state returns the text in the last column of the table of cache entries.
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

// what returns the names of the graphs that an image contains, or the kind of a result.
func (e cacheEntry) what() string {
	if e.Kind == imageKind {
		return e.Graphs
	}
	return e.Kind
}

// deviceName extracts the device's name from the description that checks and
// profiles contain.
func deviceName(device string) string {
	name, _, _ := strings.Cut(device, ", ")
	return name
}

// cacheFlags holds the flags of the commands list, verify and clear.
type cacheFlags struct{ json bool }

func (f *cacheFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON array of objects, one per file")
}

// print prints the cache entries as a table or, with --json, as an array.
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
		cells := []string{
			fmt.Sprintf("%.*s", keyDigits, e.Key), e.Model, e.what(), e.Rows, e.Context, e.Recipe,
			cmdline.Bytes(e.Bytes), e.LastUse.Format("2006-01-02 15:04"), deviceName(e.Device), e.state(),
		}
		for i, cell := range cells { // labels of images come from model files and can hold any character
			cells[i] = printable.Line(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// openCacheFolder opens the folder of the image cache.
func openCacheFolder(cmd *cobra.Command) (launch.Settings, *imagecache.Store, error) {
	s, err := launch.ReadSettings()
	if err != nil {
		return s, nil, err
	}
	if s.Cache == "" {
		return s, nil, errors.New("SDNPU_CACHE=off: there is no cache")
	}
	store, err := s.OpenStore(cmdline.NewLogger(cmd.ErrOrStderr(), false))
	return s, store, err
}

func newCacheList() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List images and measured results",
		Args:  cmdline.NoArguments,
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
			others, err := resultEntries(s)
			if err != nil {
				return err
			}
			if err := f.print(cmd.OutOrStdout(), append(entries, others...)); err != nil || f.json {
				return err
			}
			limit := "no limit"
			if store.Limit() > 0 {
				limit = "limit " + cmdline.Bytes(store.Limit())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, %s of %s in %s\n", cmdline.Count(len(list), "image"), cmdline.Bytes(total), limit, store.Dir())
			if text := countKinds(others); text != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "and %s, which the limit does not include\n", text)
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// countKinds returns a text with the number of entries of each kind. Without entries
// countKinds returns "".
func countKinds(entries []cacheEntry) string {
	count, bytes := map[string]int{}, int64(0)
	for _, e := range entries {
		count[e.Kind]++
		bytes += e.Bytes
	}
	var parts []string
	for _, kind := range []struct{ one, many string }{{"ranges", "ranges"}, {"check", "checks"}, {"flips", "flips"}, {findings.ProfileKind, "profiles"}, {findings.ChoiceKind, "choices"}, {findings.TimesKind, "times"}} {
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
	return fmt.Sprintf("%s (%s)", strings.Join(parts, ", "), cmdline.Bytes(bytes))
}
