//go:build unix

package loaderpath

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestElementsThatDependOnTheCurrentFolderAreFound(t *testing.T) {
	for list, want := range map[string][2][]string{
		"":             {},
		"/a":           {{"/a"}},
		"/a:/b":        {{"/a", "/b"}},
		":":            {nil, {"", ""}},
		";":            {nil, {"", ""}},
		"/a:":          {{"/a"}, {""}},
		":/a":          {{"/a"}, {""}},
		"/a::/b":       {{"/a", "/b"}, {""}},
		"/a;;/b":       {{"/a", "/b"}, {""}},
		"/a;b":         {{"/a"}, {"b"}},
		"/a\n:/b":      {{"/a", "/b"}, {""}},
		".":            {nil, {"."}},
		"lib:/a:../b":  {{"/a"}, {"lib", "../b"}},
		"$ORIGIN:/a":   {{"/a"}, {"$ORIGIN"}}, // musl does not replace $ORIGIN and searches a folder of this name in the current folder
		" /a:/b":       {{"/b"}, {" /a"}},
		"/a/../b:/a/.": {{"/a/../b", "/a/."}},
	} {
		full, other := Split(list)
		require.Equal(t, want[0], full, "%q", list)
		require.Equal(t, want[1], other, "%q", list)
	}
}

func TestTheLoaderIsNoProgram(t *testing.T) {
	for path, want := range map[string]bool{
		"/lib64/ld-linux-x86-64.so.2": true, "/lib/ld-musl-aarch64.so.1": true, "/usr/bin/ld.so": true, "/system/bin/linker64": true,
		"/usr/bin/sdnpu": false, "/opt/ld-tools/llama-server": false,
	} {
		require.Equal(t, want, isLoader(path), path)
	}
}
