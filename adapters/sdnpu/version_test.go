package main

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProgramSaysWhichBuildItIs(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, tt := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v1.2.3-0.20260101000000-abcdef012345+dirty", []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "true")}, "v1.2.3-0.20260101000000-abcdef012345+dirty"},
		{"(devel)", []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "false")}, "commit abc"},
		{"(devel)", []debug.BuildSetting{setting("vcs.modified", "true"), setting("vcs.revision", "abc")}, "commit abc, with changes"},
		{"(devel)", nil, "devel, of a commit that the build does not name"},
		{"", nil, "devel, of a commit that the build does not name"},
	} {
		require.Equal(t, tt.want, versionOfBuild(&debug.BuildInfo{Main: debug.Module{Version: tt.main}, Settings: tt.settings}))
	}
	out, err := sdnpu(t, "version")
	require.NoError(t, err)
	require.Equal(t, "sdnpu "+version()+"\nbuilt with "+runtime.Version()+" for "+runtime.GOOS+"/"+runtime.GOARCH+
		"\nQNN core API 2.32 and later, tested up to 2.40, which is also the emulator's\n", out)
	short, err := sdnpu(t, "--version")
	require.NoError(t, err)
	require.Equal(t, "sdnpu version "+version()+"\n", short)
	_, err = sdnpu(t, "version", "now")
	require.ErrorContains(t, err, `version takes no argument, and "now" is one`)

	header, err := os.ReadFile("../../hexagon/emulator/csrc/qnn_abi.h")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`QNN_CORE_MAJOR = 2,\s+QNN_CORE_MINOR = 40,`), string(header))
}
