package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/internal/printable"
)

func newCacheClear() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:   "clear [MODEL | KEY]",
		Short: "Remove a model's files from the cache, or all files",
		Long: "Remove images, and the ranges, checks, flips and profiles of the model, or of all models. Name the\n" +
			"model by its file, or by a name or key that list shows. Ranges from your own texts are removed,\n" +
			"too; calibrate writes them again.",
		Example: "  sdnpu cache clear\n  sdnpu cache clear llama.gguf\n  sdnpu cache clear 3f9a01c2d4e5",
		Args:    cmdline.UpToOneArgument("MODEL or KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			selected := func(cacheEntry) bool { return true }
			if len(args) == 1 {
				selected = entriesOf(args[0])
			}
			c, err := clearEntries(s, store, selected)
			if f.json {
				return errors.Join(err, f.print(cmd.OutOrStdout(), slices.Concat(c.images, c.kept, c.failed, c.files)))
			}
			c.print(cmd.OutOrStdout())
			if len(args) == 1 && len(c.images)+len(c.kept)+len(c.failed)+len(c.files) == 0 && err == nil {
				err = fmt.Errorf("cache clear: the cache has no image of %s: see sdnpu cache list", config.Short(args[0]))
			}
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// cleared holds the result of clearing the cache.
type cleared struct {
	images []cacheEntry // images lists the removed images
	kept   []cacheEntry // kept holds images that were kept because a process uses them
	failed []cacheEntry // failed holds images that could not be removed
	files  []cacheEntry // files lists the removed results
	others int          // others is the number of images that were not selected
}

// clearEntries removes those entries of the cache that a function selects. After an
// entry that cannot be removed, clearEntries continues with the next one.
func clearEntries(s launch.Settings, store *imagecache.Store, selected func(cacheEntry) bool) (c cleared, err error) {
	list, err := store.List()
	for _, i := range list {
		e := entryOf(i)
		if !selected(e) {
			c.others++
			continue
		}
		gone, failed := store.Remove(i.Key)
		err = errors.Join(err, failed)
		switch e.Removed = gone; {
		case gone:
			c.images = append(c.images, e)
		case failed != nil: // failed gives the reason why the entry could not be removed
			c.failed = append(c.failed, e)
		default:
			c.kept = append(c.kept, e)
		}
	}
	files, failed := resultEntries(s)
	err = errors.Join(err, failed)
	for _, e := range files {
		if !selected(e) {
			continue
		}
		if failed := e.result.Remove(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		e.Removed = true
		c.files = append(c.files, e)
	}
	return c, err
}

// name returns the name of a cache entry in messages: its model with the graphs or the
// recipe. If the model is unknown, name returns the key that cache list shows.
func (e cacheEntry) name() string {
	if e.Model == "" {
		return fmt.Sprintf("%.*s", keyDigits, e.Key)
	}
	return printable.Line(strings.TrimSpace(e.Model + " " + cmp.Or(e.Graphs, e.Recipe)))
}

// print prints a line for each removed entry, and a summary.
func (c cleared) print(w io.Writer) {
	var bytes int64
	for _, e := range c.images {
		bytes += e.Bytes
		fmt.Fprintf(w, "removed %s (%s)\n", e.name(), cmdline.Bytes(e.Bytes))
	}
	for _, e := range c.files {
		fmt.Fprintf(w, "removed %s %s (%s)\n", e.Kind, e.name(), cmdline.Bytes(e.Bytes))
	}
	for _, e := range c.kept {
		fmt.Fprintf(w, "kept    %s, which is in use\n", e.name())
	}
	fmt.Fprintf(w, "%s removed, %s; %d in use and kept", cmdline.Count(len(c.images), "image"), cmdline.Bytes(bytes), len(c.kept))
	if len(c.failed) > 0 {
		fmt.Fprintf(w, "; %d could not be removed", len(c.failed))
	}
	if c.others > 0 {
		fmt.Fprintf(w, "; not chosen: %s", cmdline.Count(c.others, "image"))
	}
	fmt.Fprintln(w)
	if text := countKinds(c.files); text != "" {
		fmt.Fprintf(w, "%s removed\n", text)
	}
}

// keyDigits is the number of digits of a key that cache list shows. Twelve digits of a
// key are enough to identify an entry.
const keyDigits = 12

// entriesOf returns a function that selects the entries of a model, or the entry of
// a key. If model is the path of a file, entries are selected by the file's
// content, otherwise by the model's name.
func entriesOf(model string) func(cacheEntry) bool {
	digest := ""
	if f, err := gguf.Open(model); err == nil {
		digest = fmt.Sprintf("%x", f.Digest())
		_ = f.Close() // ignore the error of closing a file that was only read
	}
	file := filepath.Base(model)
	return func(e cacheEntry) bool {
		if len(model) >= keyDigits && strings.HasPrefix(e.Key, model) || digest != "" && e.digest == digest {
			return true
		}
		if e.Kind == findings.ProfileKind { // profiles contain only the file name of their model
			last := file[strings.LastIndex(file, ", ")+1:]
			return e.Model == strings.TrimSpace(strings.TrimSuffix(last, filepath.Ext(last)))
		}
		return e.Model != "" && (e.Model == model || e.Model == file || strings.HasSuffix(e.Model, ", "+file) || strings.HasPrefix(e.Model, model+", "))
	}
}
