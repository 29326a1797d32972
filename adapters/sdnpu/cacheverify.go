package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cache"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
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
			var v cache.Verified
			err = store.Verify(cmd.Context(), fix, v.Add)
			if err = errors.Join(err, f.print(cmd.OutOrStdout(), v.Entries)); err != nil {
				return err
			}
			if !f.json {
				fmt.Fprintln(cmd.OutOrStdout(), v.Summary())
			}
			return v.Verdict(fix)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove damaged images")
	f.add(cmd)
	return cmd
}
