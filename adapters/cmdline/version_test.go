package cmdline

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionNamesTheBuild(t *testing.T) {
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
		{"(devel)", nil, "devel (unknown commit)"},
		{"", nil, "devel (unknown commit)"},
	} {
		require.Equal(t, tt.want, versionOfBuild(&debug.BuildInfo{Main: debug.Module{Version: tt.main}, Settings: tt.settings}))
	}
}
