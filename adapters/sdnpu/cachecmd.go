package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or clear the images that models were compiled to",
		Long: "Cache looks after the folder of compiled images. It may run beside models that run:\n" +
			"what a process uses is never removed.\n\n" +
			"SDNPU_CACHE names the folder, SDNPU_CACHE_SIZE what it keeps (8GiB, 20% of the disk,\n" +
			"unlimited; default: 20%, at most 16GiB): images used least recently go first.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: see sdnpu cache --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheVerify(), newCacheClear())
	return cmd
}

// cacheEntry is an image as --json prints it.
type cacheEntry struct {
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
}

func entryOf(i imagecache.Info) cacheEntry {
	e := cacheEntry{
		Key: i.Key, Model: i.Label["model"], Graphs: i.Label["graphs"], Rows: i.Label["rows"], Context: i.Label["context"],
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
	case e.Damage != "":
		return e.Damage
	case e.InUse:
		return "in use"
	}
	return "ok"
}

// cacheFlags are those that all three commands have.
type cacheFlags struct{ json bool }

func (f *cacheFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON array of objects, one per image")
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
		fmt.Fprintf(t, "%.*s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", keyDigits, e.Key, e.Model, e.Graphs, e.Rows, e.Context, e.Recipe,
			bytesText(e.Bytes), e.LastUse.Format("2006-01-02 15:04"), e.Device, e.state())
	}
	return t.Flush()
}

// openCacheFolder opens the folder that the settings name.
func openCacheFolder(cmd *cobra.Command) (*imagecache.Store, error) {
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	if s.cache == "" {
		return nil, errors.New("SDNPU_CACHE=off: there is no cache")
	}
	return s.openStore(newLogger(cmd.ErrOrStderr(), false))
}

func newCacheList() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images: model, graphs, rows, context, recipe, size, last use, device",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openCacheFolder(cmd)
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
			if err := f.print(cmd.OutOrStdout(), entries); err != nil || f.json {
				return err
			}
			limit := "no limit"
			if store.Limit() > 0 {
				limit = "limit " + bytesText(store.Limit())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d images, %s of %s in %s\n", len(list), bytesText(total), limit, store.Dir())
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func newCacheVerify() *cobra.Command {
	var f cacheFlags
	var fix bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every byte of every image against its checksum",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			var entries []cacheEntry
			damaged := 0
			err = store.Verify(cmd.Context(), fix, func(i imagecache.Info) error {
				e := entryOf(i)
				if e.Damage != "" {
					damaged++
					_, err := os.Lstat(i.Path)
					e.Removed = errors.Is(err, os.ErrNotExist)
				}
				entries = append(entries, e)
				return nil
			})
			if err = errors.Join(err, f.print(cmd.OutOrStdout(), entries)); err != nil {
				return err
			}
			if !f.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%d images, %d damaged\n", len(entries), damaged)
			}
			if damaged > 0 && !fix {
				return fmt.Errorf("cache verify: %d of %d images are damaged: they will be compiled again when they are needed; --fix removes them now", damaged, len(entries))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove what is damaged")
	f.add(cmd)
	return cmd
}

func newCacheClear() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:     "clear [MODEL | KEY]",
		Short:   "Remove the images of a model (its file, or a name or key that list shows), or all",
		Example: "  sdnpu cache clear\n  sdnpu cache clear llama.gguf\n  sdnpu cache clear 3f9a01c2d4e5",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			meant := func(imagecache.Info) bool { return true }
			if len(args) == 1 {
				meant = imagesOf(args[0])
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			var removed, kept []cacheEntry
			var bytes int64
			for _, i := range list {
				if !meant(i) {
					continue
				}
				gone, failed := store.Remove(i.Key)
				err = errors.Join(err, failed)
				e := entryOf(i)
				if e.Removed = gone; gone {
					removed, bytes = append(removed, e), bytes+i.Size
				} else {
					kept = append(kept, e)
				}
			}
			if f.json {
				return errors.Join(err, f.print(cmd.OutOrStdout(), append(removed, kept...)))
			}
			tellCleared(cmd.OutOrStdout(), removed, kept, bytes)
			if len(args) == 1 && len(removed)+len(kept) == 0 {
				err = errors.Join(err, fmt.Errorf("cache clear: no image of %s is in the cache: see sdnpu cache list", args[0]))
			}
			return err
		},
	}
	f.add(cmd)
	return cmd
}

func tellCleared(w io.Writer, removed, kept []cacheEntry, bytes int64) {
	for _, e := range removed {
		fmt.Fprintf(w, "removed %s %s (%s)\n", e.Model, e.Graphs, bytesText(e.Bytes))
	}
	for _, e := range kept {
		fmt.Fprintf(w, "kept    %s %s: it is in use\n", e.Model, e.Graphs)
	}
	fmt.Fprintf(w, "%d images removed, %s; %d kept\n", len(removed), bytesText(bytes), len(kept))
}

// keyDigits is how many digits of an image's key list shows, which name it.
const keyDigits = 12

// imagesOf tells the images of a model: of the file at a path by what it holds,
// else by name; or the one image of a key.
func imagesOf(model string) func(imagecache.Info) bool {
	digest := ""
	if f, err := gguf.Open(model); err == nil {
		digest = fmt.Sprintf("%x", f.Digest())
		_ = f.Close() // it was only read
	}
	return func(i imagecache.Info) bool {
		name := i.Label["model"]
		return len(model) >= keyDigits && strings.HasPrefix(i.Key, model) || digest != "" && i.Label["digest"] == digest ||
			name != "" && (name == model || strings.HasSuffix(name, ", "+filepath.Base(model)) || name == filepath.Base(model) || strings.HasPrefix(name, model+", "))
	}
}
