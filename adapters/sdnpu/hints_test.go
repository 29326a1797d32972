package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestAnUnknownCommandIsNamedEvenWhereHelpIsAsked(t *testing.T) {
	for _, args := range [][]string{{"nonsense", "--help"}, {"nonsense"}, {"help", "nonsense"}, {"help", "db", "nonsense"}, {"bench", "nonsense", "-h"}, {"db", "nonsense"}} {
		require.ErrorContains(t, checkGroups(newCommand(), args), `unknown command "nonsense"`, args)
	}
	for _, args := range [][]string{
		nil,
		{"--help"},
		{"--help", "run"},
		{"help"},
		{"help", "run"},
		{"help", "bench", "switch"},
		{"run", "--help"},
		{"bench", "--help"},
		{"bench", "switch", "x"},
		{"--version"},
		{"completion", "bash"},
		{"__complete", "ru"},
	} {
		require.NoError(t, checkGroups(newCommand(), args), args)
	}
	_, err := sdnpu(t, "run", "")
	require.ErrorContains(t, err, "run: a MODEL.gguf wanted")
	for _, args := range [][]string{{"doctor", ""}, {"cache", "clear", ""}, {"calibrate", ""}, {"db", "stats", ""}} {
		_, err = sdnpu(t, args...)
		require.ErrorContains(t, err, " wanted, an empty name given: see sdnpu "+strings.Join(args[:len(args)-1], " "))
	}
	for _, args := range [][]string{{"doctor", "a", "b"}, {"cache", "clear", "a", "b"}} {
		_, err = sdnpu(t, args...)
		require.ErrorContains(t, err, " at most wanted, 2 given: see sdnpu ")
	}
	_, err = sdnpu(t, "run", "m.gguf")
	require.ErrorContains(t, err, "m.gguf: no such file")
	for _, args := range [][]string{{"run", "m.gguf", "One day"}, {"run", "--model", "m.gguf", "One day"}} {
		_, err := sdnpu(t, args...)
		require.ErrorContains(t, err, `"One day" is another argument: a prompt is given by --prompt TEXT: see sdnpu run --help`)
	}
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

func TestRecipesWithoutRangesAreNotCalibrated(t *testing.T) {
	useCache(t)
	s, err := readSettings()
	require.NoError(t, err)
	for _, r := range model.Recipes {
		if r.NeedsRanges() {
			require.Contains(t, calibratedNames(), r.Name)
			continue
		}
		_, err := sdnpu(t, "calibrate", story, "--recipe", r.Name)
		require.ErrorIs(t, err, errNotCalibrated)
		require.ErrorContains(t, err, "--recipe "+r.Name+": this recipe needs no calibration: it rounds no activations; those that do are w8a16,")
	}
	require.NoDirExists(t, filepath.Join(s.cache, rangesFolder))
}

func TestErrorsOfFlagsSayWhatIsWantedAndWhereTheHelpIs(t *testing.T) {
	useCache(t)
	for args, want := range map[string]string{
		"run":                                   "run: a MODEL.gguf wanted: see sdnpu run --help",
		"bench switch -n 0":                     "-n 0: 1 to ",
		"bench switch --output 0":               "-n 0: 1 to ",
		"bench replay x --database y --draft z": `"z"`,
		"timeline run.json":                     "--output is missing: ",
		"db import d a.txt":                     "one of --model and --tokenizer is required: see sdnpu db import --help",
		"db import d a.txt --model " + story + " --size 20%":           "no size such as 256MiB, 8GiB or unlimited",
		"db forget d --since 24":                                       "such as 24h or 90m: see sdnpu db forget --help",
		"db forget d --since -24h":                                     "such as 24h or 90m",
		"run --model m --prompt a --prompt-ids b":                      "--prompt and --prompt-ids exclude each other: give one of them: see sdnpu run --help",
		"run --model m -n many":                                        "--tokens many: a whole number wanted: see sdnpu run --help",
		"run --model m --temperature 1e999":                            "--temperature 1e999: a smaller number wanted",
		"bench session t.jsonl --long 128,x":                           "--long 128,x: whole numbers with commas between them wanted",
		"db import d a.txt --size 1 --model " + story:                  "--size: 1 is too little",
		"doctor --flips 3":                                             "sdnpu doctor MODEL.gguf --flips",
		"doctor --rows 8":                                              "sdnpu doctor MODEL.gguf --rows",
		"timeline run.json -o x.pdf":                                   "no .pdf is written",
		"calibrate --output /nope/x " + story:                          "-o: /nope/x cannot be written: no such file or directory",
		"select --adapter a --set exact=1 --set plan=descent " + story: "sdnpu.exact = true in --set and sdnpu.plan = descent in --set",
		"select --adapter a --set rows=32 --set plan=greedy " + story:  "sdnpu.rows = 32 in --set and sdnpu.plan = greedy in --set",
		"run --rows 128,32,1 --plan descent --model " + story:          "sdnpu.rows = 128,32,1 in the flags and sdnpu.plan = descent in the flags",
		"run --rows 64,1 --plan descent --model gone.gguf":             "gone.gguf: no such file",
		"doctor .":                         "give the path of a GGUF file",
		"run --blocks 99 --model " + story: "99 blocks of 5 layers: 1 to 5 wanted",
		"prepare " + story:                 "; --soc is missing: chip: its part number, such as sm8650",
	} {
		_, err := sdnpu(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
	require.NoFileExists(t, "a", "what no start would take is not written")
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

func TestAFileThatIsNoModelIsRefusedWithWhatToDo(t *testing.T) {
	useCache(t)
	dir := t.TempDir()
	raw, err := os.ReadFile(story)
	require.NoError(t, err)
	cut := textFile(t, "cut.gguf", string(raw[:len(raw)/2]))
	keys := textFile(t, "keys.gguf", string(raw[:300]))
	adapter := filepath.Join(dir, "npu.gguf")
	_, err = sdnpu(t, "select", story, "--adapter", adapter)
	require.NoError(t, err)
	for file, want := range map[string]string{cut: "fetch or convert it again", keys: "fetch or convert it again", adapter: "name the model's own GGUF"} {
		for _, args := range [][]string{
			{"run", "--library", "float", "--model", file},
			{"select", file, "--adapter", filepath.Join(dir, "other.gguf")},
			{"doctor", file, "--library", "float"},
			{"check", file, "--library", "float"},
		} {
			_, err := sdnpu(t, args...)
			require.ErrorContains(t, err, want, "%v", args)
			require.Equal(t, 1, strings.Count(err.Error(), want), "%v: once", err)
		}
	}
	require.NoFileExists(t, filepath.Join(dir, "other.gguf"))
}

func TestPromptsAreRefusedBeforeGraphsAreLoaded(t *testing.T) {
	for ids, want := range map[string]string{
		"[99999]": "token 0 of the prompt is 99999: 0 to 511 wanted", "[1,-1]": "token 1 of the prompt is -1",
		"[]": "the prompt is empty", `["a"]`: "a text: a whole number", `{"a":1}`: "an object: a list wanted",
	} {
		_, err := sdnpu(t, "run", "--model", story, "--library", filepath.Join(t.TempDir(), "gone.so"), "--prompt-ids", textFile(t, "ids.json", ids))
		require.ErrorContains(t, err, want, "and not that there is no device")
		require.NotContains(t, err.Error(), "Go ")
	}
}

func TestWhatCannotBeKeptIsNotMeasured(t *testing.T) {
	t.Setenv("SDNPU_CACHE", filepath.Join(textFile(t, "file", "no folder"), "images"))
	t.Setenv("SDNPU_LIBRARY", filepath.Join(t.TempDir(), "gone.so"))
	for _, args := range [][]string{{"check", story, "--recipe", "w8"}, {"profile", story}, {"calibrate", story}} {
		_, err := sdnpu(t, args...)
		require.ErrorContains(t, err, "set SDNPU_CACHE to a folder that can, or to off", args)
	}
}

func TestAFullContextIsSaidAndNoTokenCostsNothing(t *testing.T) {
	useCache(t)
	run := func(args ...string) (r result) {
		t.Helper()
		out, err := sdnpu(t, append([]string{"run", "--model", story, "--library", "float", "--prompt", "One day", "--json"}, args...)...)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	full := run("--context", "8", "-n", "8")
	require.True(t, full.ContextFull)
	require.Less(t, len(full.OutputIDs), 8)
	require.False(t, run("--context", "32", "-n", "8").ContextFull)
	none := run("-n", "0")
	require.False(t, none.ContextFull)
	require.Zero(t, none.CPUPerTokenMS)
	require.Positive(t, none.CPUMS)

	said := func(args ...string) (string, error) {
		var said strings.Builder
		root := newCommand()
		root.SetArgs(append([]string{"run", "--model", story, "--library", "float"}, args...))
		root.SetOut(io.Discard)
		root.SetErr(&said)
		err := root.ExecuteContext(t.Context())
		return said.String(), err
	}
	log, err := said("--prompt", "One day", "--context", "8", "-n", "8")
	require.NoError(t, err)
	require.Contains(t, log, "the context of 8 tokens is full, prompt included, so the text ends here: --context takes up to 512, what the model was made for")
	log, err = said("--prompt", "One day", "-n", "600")
	require.NoError(t, err)
	require.Contains(t, log, "the context of 512 tokens is full, prompt included, so the text ends here: the model was made for no more, so give a shorter prompt, ask for fewer tokens")
	_, err = said("--prompt", "One day", "--context", "600")
	require.ErrorContains(t, err, "a context of 600: 1 to 512 wanted")
	_, err = said("--prompt", strings.Repeat("One day ", 9), "--context", "8")
	require.ErrorIs(t, err, engine.ErrPromptTooLong)
	require.ErrorContains(t, err, "8 fit: --context takes up to 512")
	_, err = said("--prompt", strings.Repeat("One day ", 600))
	require.ErrorContains(t, err, "512 fit: the model was made for no more")
}

func TestATurnThatNoContextHoldsIsRefused(t *testing.T) {
	turns := textFile(t, "turns.jsonl", `{"prompt":3,"output":2}`+"\n"+`{"prompt":400,"output":70}`+"\n")
	_, err := sdnpu(t, "bench", "session", turns, "--context", "10")
	require.ErrorContains(t, err, "--context 10: turn 2 of "+turns+" alone has 470 tokens")
}

func TestAFolderWithoutPreparedImagesIsToldWithARemedy(t *testing.T) {
	var log strings.Builder
	s := settings{prepared: []string{filepath.Join(t.TempDir(), "nope")}}
	s.announcePrepared("digest", backend.Capabilities{}, slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "nope")
	require.Contains(t, log.String(), "take the folder out of SDNPU_PREPARED, or fill it: sdnpu prepare MODEL.gguf")
	require.Contains(t, s.lookAtPrepared(nil)[0].remedy, "sdnpu prepare MODEL.gguf")
}

// TestErrorsShowTheBeginningOfALongValue of every key, and of flags and variables
// that take one of a few.
func TestErrorsShowTheBeginningOfALongValue(t *testing.T) {
	useCache(t)
	long := strings.Repeat("é", 5000)
	bounded := func(err error, what ...any) {
		t.Helper()
		require.ErrorContains(t, err, strings.Repeat("é", 60), what...)
		require.Less(t, strings.Count(err.Error(), "é"), 300, what...)
	}
	for _, key := range config.Keys {
		if key.Name == "sdnpu.db" {
			long := "x/" + long // no absolute path
			t.Setenv(key.Variable(), long)
		} else {
			t.Setenv(key.Variable(), long)
		}
		_, err := config.Resolve(config.Environment(os.LookupEnv))
		bounded(err, key.Name)
		require.ErrorContains(t, err, "é…", key.Name)
		for _, f := range lookAtValues() {
			bounded(errors.New(f.remedy), key.Name)
		}
		_, err = sdnpu(t, "select", story, "--adapter", "a", "--set", key.Name+"="+os.Getenv(key.Variable()))
		bounded(err, key.Name)
		require.NoError(t, os.Unsetenv(key.Variable()))
	}
	for _, args := range []string{
		"select M --adapter a --set L", "select M --adapter a --set L=1", "run --model M L", "L", "bench L", "db L", "cache L", "bench switch --plan L", "bench switch --device L",
		"bench switch --device sd8gen2+L", "bench switch --as L", "bench switch --rows L", "bench switch --logits L", "bench switch --execute --pace L",
		"run --model M --draft L", "run --model M --plan L", "run --model M --rows L", "run --model M --recipe L", "run --model M -n L", "calibrate M --recipe L",
		"bench ablation --accept L=1", "bench ablation --accept sd=L", "bench ablation --accept L", "prepare M --soc L -o a", "estimate M --soc sm8650 --rows L", "doctor --code L",
		"bench switch --plan \"L", "cache clear L", "db import d M --model M --size L", "db forget d --since L", "bench replay M --ext-bound L",
	} {
		_, err := sdnpu(t, strings.Fields(strings.NewReplacer("M", story, "L", long).Replace(args))...)
		bounded(err, args)
	}
	for _, name := range []string{"SDNPU_SOC", "SDNPU_CACHE_SIZE", "SDNPU_COMPILE", gateVariable} {
		t.Setenv(name, long)
		_, err := readSettings()
		bounded(err, name)
		t.Setenv(name, "")
	}
}
