package main

import (
	"os"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
)

func TestVersionPrintsTheBuild(t *testing.T) {
	out, err := sdnpu(t, "version")
	require.NoError(t, err)
	require.Equal(t, "sdnpu "+cmdline.Version()+"\nbuilt with "+runtime.Version()+" for "+runtime.GOOS+"/"+runtime.GOARCH+
		"\nQNN core API 2.32 and later, tested up to 2.40 (the version of the emulator)\n", out)
	short, err := sdnpu(t, "--version")
	require.NoError(t, err)
	require.Equal(t, "sdnpu version "+cmdline.Version()+"\n", short)
	_, err = sdnpu(t, "version", "now")
	require.ErrorContains(t, err, `version takes no arguments, got "now": see sdnpu version --help`)

	header, err := os.ReadFile("../../hexagon/emulator/csrc/api/qnn_abi.h")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`QNN_CORE_MAJOR = 2,\s+QNN_CORE_MINOR = 40,`), string(header))
}
