package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/contact"
	"github.com/sdnpu/sdnpu/graphswap"
)

// contactChild tells a child process, which is this test binary again, where to
// write: the emulator's library reads its environment once.
const contactChild = "SDNPU_TEST_CONTACT"

// TestAFirstContactWithAPacedEmulator measures what its profile charges and
// claims no NPU.
func TestAFirstContactWithAPacedEmulator(t *testing.T) {
	if file := os.Getenv(contactChild); file != "" {
		table, err := sdnpu(t, "profile", story, "--library", "emulator", "--rows", "64,32,8,1", "--blocks", "2", "--repeats", "1", "--first-contact", "-o", file)
		require.NoError(t, err)
		require.Contains(t, table, "487 of 487 tokens of 4 texts equal (recorded)")
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), contactChild+"="+file, "SDNPU_CACHE="+filepath.Join(dir, "images"), "SDNPU_EMULATOR=profile=sd8gen2,as=qwen2.5-1.5b,pace=virtual")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r contact.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, "an emulator in the time of sd8gen2 (fitted) as qwen2.5-1.5b: no NPU was measured", r.Subject)
	require.NotEmpty(t, r.Device.BuildID)
	require.Len(t, r.Steps, 6)
	require.FileExists(t, r.Kept)
	fitted, err := graphswap.Device("sd8gen2")
	require.NoError(t, err)
	want, err := fitted.Cost("qwen2.5-1.5b")
	require.NoError(t, err)
	blocks := 0
	for _, g := range r.Graphs.List {
		if g.Block < 0 {
			require.InEpsilon(t, want.Head(g.Rows), g.RunMs, 1e-4, g.Name)
			continue
		}
		blocks++
		share := []float64{2. / 5, 3. / 5}[g.Block]
		require.InEpsilon(t, want.Exec(share, g.Rows, float64(r.Graphs.Slots)), g.RunMs, 1e-4, g.Name)
		require.InEpsilon(t, want.Load(share*float64(want.Model.BodyBytes)), g.LoadMs, 1e-6, g.Name)
	}
	require.Equal(t, 2*4, blocks)
	require.Equal(t, graphswap.Measured, r.Profile.Kind)
	got, err := r.Profile.Cost("stories260K-f16")
	require.NoError(t, err)
	require.InEpsilon(t, want.Head(16), got.Head(16), 1e-3, "a width of the head that was not measured")
	require.InEpsilon(t, want.Body(16, 300)+2*fitted.Compute.RPCMs, got.Body(16, 300), 1e-3)
}

func TestAFirstContactWithTheFloatDeviceClaimsNoNPU(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SDNPU_CACHE", "off")
	file := filepath.Join(dir, "report.json")
	args := []string{"profile", story, "--first-contact", "--rows", "8,1", "--repeats", "1", "--library"}
	_, err := sdnpu(t, append(args, "float")...)
	require.ErrorContains(t, err, "-o names")
	table, err := sdnpu(t, append(args, "float", "-o", file)...)
	require.NoError(t, err)
	require.Contains(t, table, "which is no NPU")

	missing := filepath.Join(dir, "libQnnHtp.so")
	text, err := sdnpu(t, append(args, missing, "-o", file, "--json")...)
	require.ErrorContains(t, err, missing)
	var r contact.Report
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.Nil(t, r.Device)
	require.False(t, r.Steps[0].OK)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(written))
}
