package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/timeline"
)

func newTimelineCommand() *cobra.Command {
	var out string
	var chrome bool
	cmd := &cobra.Command{
		Use:   "timeline RUN.json -o PAGE.html",
		Short: "Draw what a run did, as sdnpu run --timeline wrote it",
		Long: `Draw what a run did, as sdnpu run --timeline RUN.json wrote it: lanes of NPU,
loads and CPU, stalls, memory and the rows of each verification, the prediction
above the execution where there is one. The page needs no network. A name that
ends in .json, or --chrome, writes a trace for chrome://tracing and Perfetto.`,
		Example: "  sdnpu timeline run.json -o run.html\n  sdnpu timeline run.json -o trace.json",
		Args:    oneArgument("file of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch ext := strings.ToLower(filepath.Ext(out)); ext {
			case "", ".html", ".htm", ".json":
			default:
				if out != "-" && !chrome {
					return fmt.Errorf("-o %s: no %s is written: a name that ends in .html (a page) or .json (a trace) wanted", out, ext)
				}
			}
			return drawTimeline(cmd, args[0], out, chrome || strings.EqualFold(filepath.Ext(out), ".json"))
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, or - for the standard output (required)")
	cmd.Flags().BoolVar(&chrome, "chrome", false, "write a Chrome trace, whatever the name ends in")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

func drawTimeline(cmd *cobra.Command, in, out string, chrome bool) error {
	r, err := readTimeline(in)
	if err != nil {
		return err
	}
	draw := timeline.WritePage
	if chrome {
		draw = timeline.WriteTrace
	}
	if out == "-" {
		return draw(cmd.OutOrStdout(), r)
	}
	if same(in, out) {
		return fmt.Errorf("%s is the run itself: name another file to write", out)
	}
	return writeFile(cmd.Context(), out, 0o644, func(w io.Writer) error { return draw(w, r) })
}

func readTimeline(path string) (_ *timeline.Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := timeline.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
