package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/signing"
)

func newKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make keys that sign prepared images",
		Long: `Compiled images are code for the NPU's library, so a user must be able to trust them. The maker
of a folder of sdnpu prepare signs the folder with a private key (--sign). The users of the
folder name the maker's public key in SDNPU_PREPARED_KEYS.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "new FILE",
			Short: "Write a new private key and print its public key",
			Long: `Write a new private key to a file that only you can read, and print its public key. Keep the
file secret. An existing file is never replaced.`,
			Args: cmdline.OneArgument("FILE"),
			RunE: func(cmd *cobra.Command, args []string) error {
				public, err := signing.NewKey(args[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), public)
				return nil
			},
		},
		&cobra.Command{
			Use:   "show FILE",
			Short: "Print the public key of a private key",
			Args:  cmdline.OneArgument("FILE"),
			RunE: func(cmd *cobra.Command, args []string) error {
				key, err := signing.ReadPrivateKey(args[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), key.Public())
				return nil
			},
		},
	)
	return cmd
}
