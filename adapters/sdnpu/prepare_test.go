package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// onEachLibrary runs a test with the emulator and with the vendor's library, also
// in recipes that have to be calibrated, of which each form of weights has ranges
// of its own.
func onEachLibrary(t *testing.T, test func(t *testing.T, library, recipe string)) {
	recipes := []string{"f16", "w8a16", "w4a16-lpbq"}
	for _, recipe := range recipes {
		t.Run("emulator, "+recipe, func(t *testing.T) { test(t, "emulator", recipe) })
	}
	for _, recipe := range recipes {
		t.Run("vendor, "+recipe, func(t *testing.T) {
			path := filepath.Join(os.Getenv("SDNPU_VENDOR"), "onnxruntime_qnn", "libQnnHtp.so")
			if !exists(path) || testing.Short() {
				t.Skip("no vendor library in SDNPU_VENDOR, or -short")
			}
			test(t, path, recipe)
		})
	}
}

// TestPreparedImagesRunOnTheirChipOnly: what was prepared for a chip runs from
// an empty cache without compiling, gives the tokens of a fresh start, and is
// left alone on another chip, with the reason.
func TestPreparedImagesRunOnTheirChipOnly(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, library, recipe string) {
		t.Setenv("SDNPU_COMPILE", "inline")
		prepared := filepath.Join(t.TempDir(), "prepared")
		shape := []string{"--context", "64", "--rows", "8,1", "--recipe", recipe}
		t.Setenv("SDNPU_CACHE", filepath.Join(t.TempDir(), "images"))
		out, err := sdnpu(t, append(shape, "prepare", story, "--soc", "sm8650", "--library", library, "-o", prepared, "--share", "--twin")...)
		require.NoError(t, err)
		require.Contains(t, out, "SM8650 (SoC 57)")
		require.Equal(t, library == "emulator", strings.Contains(out, "no phone loads"))
		all, err := readManifest(prepared)
		require.NoError(t, err)
		require.Len(t, all, 1)
		m := all[0]
		require.Len(t, m.Images, 4, "a pair, its twins and the head")
		require.True(t, m.Images[0].Shared)
		if library != "emulator" { // whose description has no sections
			require.Greater(t, m.Images[0].SharedBytes, m.Images[0].ConstantBytes, "libQnnSystem tells the weights once")
			twins := int64(0)
			for _, i := range m.Images {
				if !i.Shared && i.Context > 0 {
					twins += i.Bytes
				}
			}
			require.Less(t, m.Images[0].Bytes, twins, "a pair is smaller than its twins")
		}
		require.Equal(t, []int{64}, m.Contexts)
		require.Equal(t, []int{8, 1}, m.Rows)
		require.Equal(t, recipe, m.Recipe)
		for _, i := range m.Images {
			require.FileExists(t, filepath.Join(prepared, i.Key+".image"))
		}

		run := func(soc, prepared string) (text string, compiled int) {
			cache := filepath.Join(t.TempDir(), "own", "images") // ranges lie beside it
			t.Setenv("SDNPU_SOC", soc)
			t.Setenv("SDNPU_PREPARED", prepared)
			t.Setenv("SDNPU_CACHE", cache)
			text, err := sdnpu(t, append(shape, "run", "--model", story, "--library", library, "--prompt", "One day", "-n", "4")...)
			require.NoError(t, err)
			images, err := filepath.Glob(filepath.Join(cache, "*.image"))
			require.NoError(t, err)
			return text, len(images)
		}
		fresh, compiled := run("57", "")
		require.NotZero(t, compiled)
		for soc, want := range map[string]int{"57": 0, "sm8650": 0, "43": compiled} {
			text, compiled := run(soc, prepared)
			require.Equal(t, fresh, text)
			require.Equal(t, want, compiled, "chip %s", soc)
		}
	})
}

// TestSharedImagesAreForLibrariesThatLoadThem: others are told, unless there are
// twins or nothing is shared.
func TestSharedImagesAreForLibrariesThatLoadThem(t *testing.T) {
	pair, twin, head := preparedImage{Shared: true, Context: 64}, preparedImage{Context: 64}, preparedImage{}
	for _, tt := range []struct {
		images []preparedImage
		loads  bool // shared ones
		fit    bool
	}{
		{[]preparedImage{pair, head}, true, true},
		{[]preparedImage{pair, head}, false, false},
		{[]preparedImage{pair, head, twin}, false, true},
		{[]preparedImage{twin, head}, false, true},
		{[]preparedImage{head}, false, true},
	} {
		m := preparedManifest{Images: tt.images}
		reason := m.unfit(backend.Capabilities{SharesConstants: tt.loads})
		require.Equal(t, tt.fit, reason == "", "%v", tt)
		require.Equal(t, !tt.fit, strings.Contains(reason, "--twin"))
	}
}

// TestAFolderListsEverythingThatWasPreparedIntoIt, and a manifest of one entry is
// still read.
func TestAFolderListsEverythingThatWasPreparedIntoIt(t *testing.T) {
	useCache(t)
	t.Setenv("SDNPU_COMPILE", "inline")
	dir := t.TempDir()
	prepare := func(model string, more ...string) {
		t.Helper()
		_, err := sdnpu(t, append([]string{
			"prepare", model, "--soc", "sm8650", "--library", "emulator", "--context", "64", "--rows", "8,1", "-o", dir,
		}, more...)...)
		require.NoError(t, err)
	}
	prepare(story)
	all, err := readManifest(dir)
	require.NoError(t, err)
	old, err := json.Marshal(struct {
		Schema string `json:"schema"`
		preparedManifest
	}{"sdnpu-prepared-1", all[0]})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), old, 0o600))

	prepare("../../integration_test/models/stories260K-qwen2-f16.gguf")
	prepare(story, "--recipe", "w8")
	prepare(story, "--soc", "sm8550")
	prepare(story, "--share") // again: its images join those that it has
	all, err = readManifest(dir)
	require.NoError(t, err)
	require.Len(t, all, 4)
	of := func(i int) string {
		return fmt.Sprintf("%s %s %d: %d", all[i].Model.File, all[i].Recipe, all[i].Chip.SoC, len(all[i].Images))
	}
	require.Equal(t, "stories260K-f16.gguf f16 57: 4", of(0))
	require.Equal(t, "stories260K-qwen2-f16.gguf f16 57: 3", of(1))
	require.Equal(t, "stories260K-f16.gguf w8 57: 3", of(2))
	require.Equal(t, "stories260K-f16.gguf f16 43: 3", of(3))

	s := settings{prepared: []string{dir}}
	c := backend.Capabilities{Fingerprint: all[0].Library.Fingerprint, BuildID: all[0].Library.BuildID, SoC: "57"}
	findings := s.lookAtPrepared(&c)
	require.Len(t, findings, 4)
	for i, f := range findings {
		require.Contains(t, f.found, all[i].Model.Name)
		require.Empty(t, f.remedy, "each model has something for this chip")
	}
	require.Contains(t, findings[3].found, "not for this device: prepared for SM8550 (SoC 43), this is SoC 57")
	told := func(digest string) string {
		var log strings.Builder
		s.announcePrepared(digest, c, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		return log.String()
	}
	require.Equal(t, 2, strings.Count(told(all[0].Model.Digest), "level=INFO"), "two recipes")
	require.NotContains(t, told(all[0].Model.Digest), "WARN", "of the other chip's there is nothing to say")
	require.Contains(t, told(all[1].Model.Digest), "level=INFO")
	require.Contains(t, told("another"), "other models")
	c.Fingerprint, c.SoC = "x", "1"
	require.Equal(t, 3, strings.Count(told(all[0].Model.Digest), "level=WARN"))
	require.Contains(t, s.lookAtPrepared(&c)[1].remedy, "this is SoC 1")

	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte("{"), 0o600))
	_, err = sdnpu(t, "prepare", story, "--soc", "57", "--library", "gone.so", "-o", dir)
	require.ErrorContains(t, err, "remove it, which loses no image, or name another folder")
	_, err = sdnpu(t, "prepare", story, "--soc", "57", "--library", "gone.so", "-o", story)
	require.ErrorContains(t, err, "name a folder that can be read and written")
	require.NotContains(t, err.Error(), "remove it", "it is the model")
}

func TestModelsThatArePreparedAtOnceAreAllListed(t *testing.T) {
	const models = 12
	dir := t.TempDir()
	errs := make(chan error, models)
	for i := range models {
		go func() {
			store, err := imagecache.Open(dir, imagecache.Options{Keep: true})
			if err == nil {
				m := preparedManifest{Model: preparedModel{Digest: fmt.Sprint(i)}}
				err = m.keep(t.Context(), dir, store)
			}
			errs <- err
		}()
	}
	for range models {
		require.NoError(t, <-errs)
	}
	all, err := readManifest(dir)
	require.NoError(t, err)
	require.Len(t, all, models)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "no lock is left")
}

func TestPrepareSaysWhatItWants(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"prepare", story, "-o", out}, "soc"},
		{[]string{"prepare", story, "--soc", "57"}, "output"},
		{[]string{"prepare", story, "--soc", "phone", "-o", out}, "sm8650 (57)"},
		{[]string{"prepare", story, "--soc", "57", "-o", out, "--twin"}, "--share"},
		{[]string{"prepare", story, "--soc", "57", "-o", out, "--library", "float"}, "float device has nothing to prepare"},
	} {
		_, err := sdnpu(t, tt.args...)
		require.ErrorContains(t, err, tt.says, "%v", tt.args)
		require.NoDirExists(t, out)
	}
}

func TestUnfitPreparedImagesAreNamed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SDNPU_PREPARED", dir)
	t.Setenv("SDNPU_LIBRARY", "float")
	s, err := readSettings()
	require.NoError(t, err)
	findings := s.lookAtPrepared(nil)
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].remedy, "sdnpu prepare")
	for text, says := range map[string]string{"{": "unexpected", `{"schema":"other"}`: "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte(text), 0o600))
		require.Contains(t, s.lookAtPrepared(nil)[0].remedy, says)
	}
}
