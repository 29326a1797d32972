package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

func newCacheVerify() *cobra.Command {
	var f cacheFlags
	var fix bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check all images against their checksums",
		Args:  cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, store, err := openCacheFolder(cmd)
			if err != nil {
				return err
			}
			var v verified
			err = store.Verify(cmd.Context(), fix, v.add)
			if err = errors.Join(err, f.print(cmd.OutOrStdout(), v.entries)); err != nil {
				return err
			}
			if !f.json {
				fmt.Fprintln(cmd.OutOrStdout(), v.summary())
			}
			return v.verdict(fix)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove damaged images")
	f.add(cmd)
	return cmd
}

// verified holds the result of checking the cache: all images, the number of damaged
// ones, a line for each image that cannot be read, and a line for each image that --fix
// could not remove.
type verified struct {
	entries      []cacheEntry
	damaged      int
	unread, kept []string
}

func (v *verified) add(i imagecache.Info) error {
	e := entryOf(i)
	e.verified = true
	switch {
	case i.Unread:
		v.unread = append(v.unread, line(i, i.Damage))
	case i.Damage != nil:
		v.damaged++
		_, err := os.Lstat(i.Path)
		e.Removed = errors.Is(err, fs.ErrNotExist)
		if i.Kept != nil {
			e.Kept = i.Kept.Error()
			v.kept = append(v.kept, line(i, i.Kept))
		}
	}
	v.entries = append(v.entries, e)
	return nil
}

// line returns the name of a file and the reason for its damage, as one line. The
// reason is shortened by the name of the file.
func line(i imagecache.Info, reason error) string {
	if path := (*fs.PathError)(nil); errors.As(reason, &path) {
		reason = path.Err
	}
	return fmt.Sprintf("\n  %s: %v", i.Path, reason)
}

func (v *verified) summary() string {
	text := fmt.Sprintf("%s, %d damaged", cmdline.Count(len(v.entries), "image"), v.damaged)
	if len(v.unread) > 0 {
		text += fmt.Sprintf(", %d cannot be read", len(v.unread))
	}
	return text
}

// verdict returns nil if all images in the cache are valid, or if the damaged ones were
// removed.
func (v *verified) verdict(fix bool) error {
	var errs []error
	if v.damaged > 0 && !fix {
		errs = append(errs, fmt.Errorf("cache verify: %d of %d images are damaged: they are compiled again when they are needed; --fix removes them now", v.damaged, len(v.entries)))
	}
	if len(v.kept) > 0 {
		errs = append(errs, fmt.Errorf("cache verify: %d of %d damaged images could not be removed: remove them as a user with the necessary rights%s", len(v.kept), v.damaged, strings.Join(v.kept, "")))
	}
	if len(v.unread) > 0 {
		errs = append(errs, fmt.Errorf("cache verify: %d of %d images cannot be read and are kept, because they may be valid: allow this user to read them%s", len(v.unread), len(v.entries), strings.Join(v.unread, "")))
	}
	return errors.Join(errs...)
}
