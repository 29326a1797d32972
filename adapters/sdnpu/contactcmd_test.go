package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/contact"
	"github.com/sdnpu/sdnpu/adapters/timeline"
	"github.com/sdnpu/sdnpu/graphswap"
)

// pacedFolder tells a child process, which is this test binary again, where to
// write: the emulator's library reads its environment once.
const pacedFolder = "SDNPU_TEST_PACED_FOLDER"

// paced runs body in a process whose emulator keeps a phone's time without
// waiting, with image cache and profiles in the folder, and returns the folder;
// in that process it returns nothing.
func paced(t *testing.T, body func(t *testing.T, folder string)) string {
	if folder := os.Getenv(pacedFolder); folder != "" {
		body(t, folder)
		return ""
	}
	folder := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), pacedFolder+"="+folder, "SDNPU_CACHE="+filepath.Join(folder, "images"), "SDNPU_EMULATOR=profile=sd8gen2,as=qwen2.5-1.5b,pace=virtual")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())
	return folder
}

// TestAFirstContactWithAPacedEmulator measures what its profile charges and
// claims no NPU.
func TestAFirstContactWithAPacedEmulator(t *testing.T) {
	folder := paced(t, func(t *testing.T, folder string) {
		table, err := sdnpu(t, "profile", story, "--library", "emulator", "--rows", "64,32,8,1", "--blocks", "2", "--repeats", "1", "--first-contact",
			"-o", filepath.Join(folder, "report.json"))
		require.NoError(t, err)
		require.Contains(t, table, "487 of 487 tokens of 4 texts equal (recorded)")
	})
	if folder == "" {
		return
	}
	file := filepath.Join(folder, "report.json")
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

// TestPlansGoByTheMeasuredProfile of the device: what is foretold at a longer
// context than was measured is what is executed.
func TestPlansGoByTheMeasuredProfile(t *testing.T) {
	paced(t, func(t *testing.T, folder string) {
		line := filepath.Join(folder, "line.json")
		ids, err := json.Marshal(slices.Repeat([]int32{1, 403, 407, 261, 378, 432}, 30))
		require.NoError(t, err)
		prompt := filepath.Join(folder, "prompt.json")
		require.NoError(t, os.WriteFile(prompt, ids, 0o600))
		run := func(rows string) (reason string, record *timeline.Record) {
			text, err := sdnpu(t, "run", "--model", story, "--library", "emulator", "--prompt-ids", prompt, "-n", "1", "--plan", "sync", "--rows", rows,
				"--blocks", "2", "--json", "--timeline", line)
			require.NoError(t, err)
			var r result
			require.NoError(t, json.Unmarshal([]byte(text), &r))
			record, err = readTimeline(line)
			require.NoError(t, err)
			require.Contains(t, record.Device, "in the time of sd8gen2 (fitted) as qwen2.5-1.5b; planned by")
			return r.Plan.Reason, record
		}
		const unknown = "planned by what its graphs took as they were loaded"
		reason, _ := run("32,8")
		require.Contains(t, reason, unknown)
		_, err = sdnpu(t, "profile", story, "--library", "emulator", "--rows", "32,16,8", "--blocks", "2", "--repeats", "1")
		require.NoError(t, err)
		reason, record := run("32,8")
		require.Contains(t, reason, "planned by the measured profile of this device and model")
		require.Contains(t, record.Device, "planned by the measured profile")
		require.Len(t, record.Timelines, 2)
		require.InEpsilon(t, record.Timelines[0].PrefillMs, record.Timelines[1].PrefillMs, 1e-3)
		require.InEpsilon(t, record.Timelines[0].SwitchEndMs, record.Timelines[1].SwitchEndMs, 1e-3)
		reason, _ = run("32,4")
		require.Contains(t, reason, unknown, "a width that was not measured")

		kept, err := filepath.Glob(filepath.Join(os.Getenv("SDNPU_CACHE"), "profiles", "*.json"))
		require.NoError(t, err)
		require.Len(t, kept, 1)
		require.NoError(t, os.WriteFile(kept[0], []byte("{}"), 0o600))
		reason, _ = run("32,8")
		require.Contains(t, reason, unknown, "a profile that cannot be read")
	})
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
