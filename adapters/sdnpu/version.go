package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// version is the module's, or the commit that a checkout was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOfBuild(info)
}

// versionOfBuild says which program a build is. A checkout that had changes says so.
func versionOfBuild(info *debug.BuildInfo) string {
	v, commit, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", with changes"
		}
	}
	switch {
	case v != "" && v != "(devel)":
		return v // its suffix +dirty tells of changes
	case commit != "":
		return commit + dirty
	}
	return "devel, of a commit that the build does not name"
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which program this is, what built it and which libraries it speaks to",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sayVersion(cmd.OutOrStdout(), version())
		},
	}
}

// sayVersion prints what a report of a fault should hold.
func sayVersion(w io.Writer, program string) error {
	oldest, tested := qnn.CoreAPI()
	_, err := fmt.Fprintf(w, "sdnpu %s\nbuilt with %s for %s/%s\nQNN core API %d.%d and later, tested up to %d.%d, which is also the emulator's\n",
		program, runtime.Version(), runtime.GOOS, runtime.GOARCH, oldest.Major, oldest.Minor, tested.Major, tested.Minor)
	return err
}
