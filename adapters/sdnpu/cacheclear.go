package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

func newCacheClear() *cobra.Command {
	var f cacheFlags
	cmd := &cobra.Command{
		Use:   "clear [MODEL | KEY]",
		Short: "Remove what the cache holds of a model (its file, or a name or key that list shows), or all",
		Long: "Clear removes images, and with them the ranges, checks and profiles of the model, or of all.\n" +
			"Ranges from texts of your own go too: calibrate writes them again.",
		Example: "  sdnpu cache clear\n  sdnpu cache clear llama.gguf\n  sdnpu cache clear 3f9a01c2d4e5",
		Args:    upToOneArgument("MODEL or KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			meant := func(cacheEntry) bool { return true }
			if len(args) == 1 {
				meant = entriesOf(args[0])
			}
			c, err := s.clear(store, meant)
			if f.json {
				return errors.Join(err, f.print(cmd.OutOrStdout(), slices.Concat(c.images, c.kept, c.failed, c.files)))
			}
			c.tell(cmd.OutOrStdout())
			if len(args) == 1 && len(c.images)+len(c.kept)+len(c.failed)+len(c.files) == 0 && err == nil {
				err = fmt.Errorf("cache clear: no image of %s is in the cache: see sdnpu cache list", config.Short(args[0]))
			}
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// cleared is what became of the cache: images that were removed, images that
// were kept because a process uses them or could not be removed, other files
// that were removed, and how many images were not meant.
type cleared struct {
	images, kept, failed, files []cacheEntry
	others                      int
}

// clear removes the entries that are meant, as far as it can.
func (s settings) clear(store *imagecache.Store, meant func(cacheEntry) bool) (c cleared, err error) {
	list, err := store.List()
	for _, i := range list {
		e := entryOf(i)
		if !meant(e) {
			c.others++
			continue
		}
		gone, failed := store.Remove(i.Key)
		err = errors.Join(err, failed)
		switch e.Removed = gone; {
		case gone:
			c.images = append(c.images, e)
		case failed != nil: // what errors say
			c.failed = append(c.failed, e)
		default:
			c.kept = append(c.kept, e)
		}
	}
	files, failed := s.kept()
	err = errors.Join(err, failed)
	for _, e := range files {
		if !meant(e) {
			continue
		}
		if failed := errors.Join(remove(e.path), remove(codesBeside(e.path))); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		e.Removed = true
		c.files = append(c.files, e)
	}
	return c, err
}

// name is what people know an entry by: its model and what of it, else the key
// that list shows.
func (e cacheEntry) name() string {
	if e.Model == "" {
		return fmt.Sprintf("%.*s", keyDigits, e.Key)
	}
	return strings.TrimSpace(e.Model + " " + cmp.Or(e.Graphs, e.Recipe))
}

func (c cleared) tell(w io.Writer) {
	var bytes int64
	for _, e := range c.images {
		bytes += e.Bytes
		fmt.Fprintf(w, "removed %s (%s)\n", e.name(), bytesText(e.Bytes))
	}
	for _, e := range c.files {
		fmt.Fprintf(w, "removed %s %s (%s)\n", e.Kind, e.name(), bytesText(e.Bytes))
	}
	for _, e := range c.kept {
		fmt.Fprintf(w, "kept    %s: it is in use\n", e.name())
	}
	fmt.Fprintf(w, "%d images removed, %s; %d kept as they are in use", len(c.images), bytesText(bytes), len(c.kept))
	if len(c.failed) > 0 {
		fmt.Fprintf(w, "; %d could not be removed", len(c.failed))
	}
	if c.others > 0 {
		fmt.Fprintf(w, "; %d others stay", c.others)
	}
	fmt.Fprintln(w)
	if text := keptText(c.files); text != "" {
		fmt.Fprintf(w, "%s removed\n", text)
	}
}

// keyDigits is how many digits of a file's key list shows, which name it.
const keyDigits = 12

// entriesOf tells what the cache holds of a model: of the file at a path by what
// it holds, else by name; or the files of a key.
func entriesOf(model string) func(cacheEntry) bool {
	digest := ""
	if f, err := gguf.Open(model); err == nil {
		digest = fmt.Sprintf("%x", f.Digest())
		_ = f.Close() // it was only read
	}
	file := filepath.Base(model)
	return func(e cacheEntry) bool {
		if len(model) >= keyDigits && strings.HasPrefix(e.Key, model) || digest != "" && e.digest == digest {
			return true
		}
		if e.Kind == profileKind { // named after the file alone
			last := file[strings.LastIndex(file, ", ")+1:]
			return e.Model == strings.TrimSpace(strings.TrimSuffix(last, filepath.Ext(last)))
		}
		return e.Model != "" && (e.Model == model || e.Model == file || strings.HasSuffix(e.Model, ", "+file) || strings.HasPrefix(e.Model, model+", "))
	}
}

// remove removes a file that may have gone.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
