package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

func TestDoctorAnswersMachinesToo(t *testing.T) {
	t.Setenv("SDNPU_LIBRARY", "float")
	t.Setenv("SDNPU_CACHE", "off")
	out, _ := sdnpu(t, "doctor", "--json")
	var got struct {
		Findings []struct {
			What, Found, Remedy string
			OK                  bool
		}
		Missing int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	missing, seen := 0, map[string]bool{}
	for _, f := range got.Findings {
		seen[f.What] = true
		require.Equal(t, f.OK, f.Found != "")
		if !f.OK {
			missing++
			require.NotEmpty(t, f.Remedy, f.What)
		}
	}
	require.Equal(t, missing, got.Missing)
	for _, what := range []string{"program", "device", "chip", "DSP driver", "DSP images", "image cache", "Ollama"} {
		require.True(t, seen[what], what)
	}
}

func TestDoctorLooksAtWhatLeadsToTheDSP(t *testing.T) {
	require.Contains(t, lookAtChip(&backend.Capabilities{SoC: "57"}).found, "SM8650 (Snapdragon 8 Gen 3), number 57, Hexagon v75")
	require.Contains(t, lookAtChip(&backend.Capabilities{SoC: "4711"}).found, "number 4711")
	t.Setenv("LD_LIBRARY_PATH", "")
	dir := t.TempDir()
	require.Empty(t, lookAtDriver("linux/arm64", []string{dir}).found)
	require.NotEmpty(t, lookAtDriver("linux/amd64", []string{dir}).found, "there is no NPU to reach")
	for _, name := range []string{"libcdsprpc.so.1", "libQnnHtp.so", "libQnnHtpV75Skel.so", "libQnnHtpV75Stub.so", "libQnnHtpV79Stub.so"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.Equal(t, filepath.Join(dir, "libcdsprpc.so.1"), lookAtDriver("linux/arm64", []string{dir}).found)
	t.Setenv(driverPath, "/vendor/dsp")
	f := settings{library: filepath.Join(dir, "libQnnHtp.so")}.lookAtSkels("sdnpu")
	require.Contains(t, f.found, "images v75, stubs v75 v79; ADSP_LIBRARY_PATH=/vendor/dsp")
	require.Contains(t, f.remedy, "without their image: v79")
}
