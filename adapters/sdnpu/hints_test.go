package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

func TestAnUnknownCommandIsNamedEvenWhereHelpIsAsked(t *testing.T) {
	for _, args := range [][]string{{"nonsense", "--help"}, {"nonsense"}, {"bench", "nonsense", "-h"}, {"db", "nonsense"}} {
		require.ErrorContains(t, checkGroups(newCommand(), args), `unknown command "nonsense"`, args)
	}
	for _, args := range [][]string{
		nil,
		{"--help"},
		{"--help", "run"},
		{"help", "run"},
		{"run", "--help"},
		{"bench", "--help"},
		{"bench", "switch", "x"},
		{"--version"},
		{"completion", "bash"},
		{"__complete", "ru"},
	} {
		require.NoError(t, checkGroups(newCommand(), args), args)
	}
	_, err := sdnpu(t, "run", "m.gguf")
	require.ErrorContains(t, err, "--model m.gguf")
}

func TestALibraryInTheCurrentFolderIsFoundByItsName(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("libQnnHtp.so", []byte("no library"), 0o600))
	_, err := settings{library: "libQnnHtp.so"}.openDevice(t.Context(), "sdnpu", newLogger(os.Stderr, false))
	require.ErrorContains(t, err, absolute("libQnnHtp.so"), "it is opened, although it is none")
	require.Equal(t, "gone.so", nearby("gone.so"), "that is for the system's loader")

	for name, meant := range map[string]bool{"emulatr": true, "emulater": true, "flaot": true, "gone.so": false} {
		_, err := settings{library: name}.openDevice(t.Context(), "sdnpu", newLogger(os.Stderr, false))
		require.Error(t, err)
		require.Equal(t, meant, nearest(name, []string{"emulator", "float"}) != "", name)
		if meant {
			require.ErrorContains(t, err, " is meant?", name)
		}
	}
}

func TestTheProgramItselfIsNoFolderToSearch(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sdnpu"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, runtimeFolderName), nil, 0o600))
	arg0 := filepath.Join(dir, "sdnpu")
	require.NotContains(t, libraryFolders(arg0), arg0)
	require.Contains(t, libraryFolders(arg0), dir)
	require.NotContains(t, runtimeFolders(arg0), filepath.Join(dir, runtimeFolderName))
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("LD_LIBRARY_PATH", "")
	t.Setenv("QNN_SDK_ROOT", "")
	_, err := settings{}.findLibrary(arg0)
	require.ErrorIs(t, err, errNoLibrary)
	for _, f := range append(libraryFolders(arg0), runtimeFolders(arg0)...) {
		require.ErrorContains(t, err, f)
	}
}

func TestAFileThatCannotBeWrittenIsRefusedBeforeTheWork(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone", "run.json")
	for _, path := range []string{gone, dir} {
		out, err := sdnpu(t, "run", "--model", story, "--library", "float", "--timeline", path)
		require.ErrorContains(t, err, "--timeline: "+path)
		require.NotContains(t, err.Error(), ".run.json-", "a name of ours")
		require.Empty(t, out, "nothing was generated")
	}
	fine := filepath.Join(dir, "run.json")
	require.NoError(t, checkWritable(fine))
	require.NoError(t, checkWritable(""))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "looking leaves nothing behind")
}

func TestCalibrateRefusesTextsAndTargetsBeforeTheWork(t *testing.T) {
	useCache(t)
	dir := t.TempDir()
	long := strings.Repeat("Once upon a time there was a cat. ", 60)
	copied := filepath.Join(dir, "model.gguf")
	raw, err := os.ReadFile(story)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, raw, 0o600))
	for _, binary := range []string{long + "\x00", long + "caf\xe9 au lait"} {
		_, err := sdnpu(t, "calibrate", copied, "--text", textFile(t, "b.bin", binary))
		require.ErrorIs(t, err, errNoText)
		require.ErrorContains(t, err, "b.bin")
	}
	for target, want := range map[string]string{
		dir: "no regular file", filepath.Join(dir, "gone", "r.json"): "no such file", copied: "is the model",
	} {
		_, err := sdnpu(t, "calibrate", copied, "--text", textFile(t, "short.txt", "too short, which is seen later"), "-o", target)
		require.ErrorContains(t, err, "-o: "+target)
		require.ErrorContains(t, err, want)
	}
	require.NoDirExists(t, filepath.Join(dir, "gone"))
	out := filepath.Join(dir, "r.json")
	_, err = sdnpu(t, "calibrate", copied, "--text", textFile(t, "fine.txt", long), "-o", out)
	require.NoError(t, err)
	require.FileExists(t, out)
	s, err := readSettings()
	require.NoError(t, err)
	f, err := gguf.Open(copied)
	require.NoError(t, err)
	digest := fmt.Sprintf("%x", f.Digest())
	require.NoError(t, f.Close())
	there := s.rangesPath(digest)
	require.NoFileExists(t, there)
	require.NoError(t, os.MkdirAll(filepath.Dir(there), 0o700))
	require.NoError(t, os.Rename(out, there))
	require.NoError(t, os.Rename(codesBeside(out), codesBeside(there)))
	r, err := readRanges(there, digest)
	require.NoError(t, err, "as the help says")
	require.NotEmpty(t, r.Rounded.Constants)
}

func TestErrorsOfFlagsSayWhatIsWantedAndWhereTheHelpIs(t *testing.T) {
	useCache(t)
	for args, want := range map[string]string{
		"run":                  `"model" not set: see sdnpu run --help`,
		"timeline run.json":    `"out" not set: see sdnpu timeline --help`,
		"db import a.txt -o d": "[model tokenizer] is required: see sdnpu db import --help",
		"db import a.txt -o d --model " + story + " --size 20%": "no size such as 256MiB, 8GiB or unlimited",
		"db forget d --since 24":                                "such as 24h or 90m: see sdnpu db forget --help",
		"db forget d --since -24h":                              "such as 24h or 90m",
		"run --blocks 99 --model " + story:                      "99 blocks of 5 layers: 1 to 5 wanted",
	} {
		_, err := sdnpu(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
	var s span
	require.NoError(t, s.Set("90m"))
	require.Equal(t, span(90*time.Minute), s)
}

func TestDoctorFindsValuesThatNoStartWouldTake(t *testing.T) {
	useCache(t)
	t.Setenv("SDNPU_RECIPE", "w1")
	t.Setenv("SDNPU_ROWS", "1,2")
	t.Setenv("SDNPU_BLOCKS", "3")
	out, err := sdnpu(t, "doctor")
	require.ErrorContains(t, err, "missing")
	require.Regexp(t, `(?m)^missing +environment +to do: SDNPU_RECIPE="w1": one of f16,`, out)
	require.Regexp(t, `(?m)^missing +environment +to do: SDNPU_ROWS="1,2": one to four widths`, out)
	require.NotContains(t, out, "SDNPU_BLOCKS")
}

func TestAWrongSettingOfTheEmulatorIsNotBlamedOnTheLibrary(t *testing.T) {
	t.Setenv("SDNPU_EMULATOR", "switching=yes")
	_, err := settings{library: "emulator"}.openDevice(t.Context(), "sdnpu", newLogger(io.Discard, false))
	require.ErrorContains(t, err, "switching=yes is neither on nor off")
	require.NotContains(t, err.Error(), "is meant?")
	require.NotContains(t, err.Error(), "SDNPU_LIBRARY")
}
