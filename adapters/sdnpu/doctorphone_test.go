package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon"
)

// fill writes files below a folder; a name that ends in / is a folder.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if name[len(name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

// A folder that is broken in one way each, and what the doctor says of it.
func TestDoctorNamesWhatIsBroken(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "")
	const new, old = "…v2.51.0.260929181845…", "…v2.43.0.250101000000…"
	whole := map[string]string{libraryName(): new, "libQnnHtpV75Skel.so": new, "libQnnHtpV75Stub.so": new}
	with := func(name, text string) map[string]string {
		files := map[string]string{name: text}
		for k, v := range whole {
			if k != name {
				files[k] = v
			}
		}
		return files
	}
	versions := func(_ *testing.T, root string) finding { return lookAtVersions(root) }
	nodes := func(_ *testing.T, root string) finding { return lookAtNodes("linux/arm64", root) }
	skels := func(_ *testing.T, root string) finding {
		return settings{library: filepath.Join(root, libraryName())}.lookAtSkels("sdnpu")
	}
	path := func(value string) func(*testing.T, string) finding {
		return func(t *testing.T, root string) finding {
			t.Setenv(driverPath, os.Expand(value, func(string) string { return root }))
			return lookAtDriverPath(root)
		}
	}
	cdsp, heap := "dev/fastrpc-cdsp", "dev/dma_heap/system"
	for _, tt := range []struct {
		name  string
		files map[string]string
		look  func(t *testing.T, root string) finding
		found string // contained; empty: it is missing
		says  string // contained in the remedy
	}{
		{"whole", whole, versions, "v2.51.0.260929181845", ""},
		{"an image of another version", with("libQnnHtpV75Skel.so", old), versions, "", "libQnnHtpV75Skel.so is v2.43.0.250101000000"},
		{"a stub of another version", with("libQnnHtpV75Stub.so", old), versions, "", "libQnnHtpV75Stub.so is v2.43.0.250101000000"},
		{"a library of another version", with(libraryName(), old), versions, "", "install the runtime again"},
		{"no images", map[string]string{libraryName(): new}, versions, "no images", ""},
		{"a stub without its image", with("libQnnHtpV79Stub.so", new), skels, "stubs v75 v79", "without their image: v79"},
		{"no driver", nil, func(_ *testing.T, root string) finding { return lookAtDriver("linux/arm64", []string{root}) }, "", "fastrpc package"},
		{"the driver's second name", map[string]string{"libcdsprpc.so.1": ""}, func(_ *testing.T, root string) finding { return lookAtDriver("linux/arm64", []string{root}) }, "libcdsprpc.so.1", ""},
		{"device files", map[string]string{cdsp: "", heap: ""}, nodes, "/dev/fastrpc-cdsp, /dev/dma_heap/system", ""},
		{"an older kernel's", map[string]string{"dev/adsprpc-smd": "", "dev/ion": ""}, nodes, "/dev/adsprpc-smd, /dev/ion", ""},
		{"no DSP node", map[string]string{heap: ""}, nodes, "", "none of /dev/fastrpc-cdsp"},
		{"no memory node", map[string]string{cdsp: ""}, nodes, "", "none of /dev/dma_heap/system"},
		{"no path", nil, path(""), "not set", "this program sets it"},
		{"a path", nil, path("$root"), "=", ""},
		{"a path that leaves out the images", nil, path(os.TempDir()), "=", "is put before it"},
		{"a path with colons", nil, path("$root:/vendor/dsp"), "", "semicolons"},
		{"a path to nowhere", nil, path("$root/gone;$root"), "", "no folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.look(t, fill(t, tt.files))
			if tt.found == "" {
				require.Empty(t, f.found)
			}
			require.Contains(t, f.found, tt.found)
			require.Contains(t, f.remedy, tt.says)
			if tt.says == "" && tt.found != "=" {
				require.Empty(t, f.remedy)
			}
		})
	}
}

func TestDoctorNamesANodeThatMayNotBeOpened(t *testing.T) {
	// What may not be opened stands in for it: for root everything else may.
	root := fill(t, map[string]string{"dev/fastrpc-cdsp": ""})
	require.NoError(t, os.Chmod(filepath.Join(root, "dev/fastrpc-cdsp"), 0o400))
	if file, err := os.OpenFile(filepath.Join(root, "dev/fastrpc-cdsp"), os.O_RDWR, 0); err == nil {
		require.NoError(t, file.Close())
		t.Skip("this user may open everything")
	}
	f := lookAtNodes("linux/arm64", root)
	require.Empty(t, f.found)
	require.Contains(t, f.remedy, "add this user to the group")
}

func TestDoctorKnowsTheWindowOfEachChip(t *testing.T) {
	for _, c := range hexagon.Chips {
		f := lookAtWindow(&backend.Capabilities{SoC: c.Name})
		require.Contains(t, f.found, "3.75 GB a session")
		require.Equal(t, c.Arch < 73, f.remedy != lookAtWindow(&backend.Capabilities{SoC: "57"}).remedy, c.Name)
	}
	require.Contains(t, lookAtWindow(nil).found, "not known")
}

func TestDoctorExplainsCodes(t *testing.T) {
	for _, f := range hexagon.Faults() {
		said, err := sdnpu(t, "doctor", "--code", f.Code)
		require.NoError(t, err)
		require.Contains(t, said, f.Cause)
		require.Contains(t, said, f.Remedy)
	}
	said, err := sdnpu(t, "doctor", "--code", "1011", "--json")
	require.NoError(t, err)
	var f hexagon.Fault
	require.NoError(t, json.Unmarshal([]byte(said), &f))
	require.Equal(t, "1011", f.Code)
	_, err = sdnpu(t, "doctor", "--code", "4711")
	require.ErrorContains(t, err, "known are 1002")
}

// Each Ollama on the way is named with the runner that it would start.
func TestDoctorNamesEveryOllama(t *testing.T) {
	t.Setenv("SDNPU_ORIGINAL", "")
	root := fill(t, map[string]string{"one/bin/": "", "one/lib/ollama/llama-server": "its own"})
	require.NoError(t, os.WriteFile(filepath.Join(root, "one/bin/ollama"), []byte(hostProgram), 0o755)) //nolint:gosec // a program
	t.Setenv("PATH", filepath.Join(root, "one/bin"))
	found := settings{}.lookAtOllama(t.Context(), "")
	real, err := filepath.EvalSymlinks(root)
	require.NoError(t, err)
	require.Equal(t, finding{what: "Ollama", found: filepath.Join(real, "one/bin/ollama")}, found[0])
	require.Equal(t, filepath.Join(real, "one/lib/ollama/llama-server"), found[1].found)
	require.Contains(t, found[1].remedy, "the original")
}
