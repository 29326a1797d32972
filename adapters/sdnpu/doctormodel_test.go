package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/filelock"
)

func TestDoctorTellsWhatAModelCosts(t *testing.T) {
	dir := useCache(t)
	examine := func(more ...string) (r modelReport) {
		out, err := sdnpu(t, append([]string{"doctor", story, "--json", "--context", "128", "--rows", "16,1"}, more...)...)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
		return r
	}
	first := examine()
	require.Equal(t, "llama", first.Architecture)
	require.Equal(t, map[string]int{"F16": 37, "F32": 11}, first.Types)
	require.EqualValues(t, 2*512*64+5*(2*64*64+2*32*64+3*172*64+2*64)+64, first.Parameters)
	require.Equal(t, 512, first.Tokens)
	require.Equal(t, []int{16, 1}, first.Rows)
	require.Equal(t, []int{128}, first.Contexts)
	require.Equal(t, 2, first.Images)
	require.Zero(t, first.Cached)
	require.NotNil(t, first.Compile)
	require.NotNil(t, first.Reload)
	require.InDelta(t, first.Estimate.Disk, first.Disk, 150_000)
	require.InDelta(t, 0.5+3*0.002928, first.Compile.Budget, 1e-6)
	require.InDelta(t, 0.5+float64(first.Disk)/1e9, first.Reload.Budget, 1e-6)
	require.Equal(t, first.Compile.Seconds <= first.Compile.Budget && first.Reload.Seconds <= first.Reload.Budget, first.Met)
	require.InDelta(t, first.Compile.Seconds/0.002928, first.Compile.Rate, 0.1)
	require.Positive(t, first.Memory.Peak)
	require.Positive(t, first.FirstTokenMS)

	again := examine()
	require.Equal(t, 2, again.Cached)
	require.Nil(t, again.Compile, "nothing is left to compile")
	require.Zero(t, again.Estimate.Disk)
	fresh := examine("--fresh")
	require.Zero(t, fresh.Cached)
	require.NotNil(t, fresh.Compile)
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1, "--fresh leaves no folder")

	text, err := sdnpu(t, "doctor", story, "--blocks", "5")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^graphs +recipe f16, rows 128,1, contexts 512, 5 blocks: 6 images, 1 of them in the cache$`, text, "the head is that of the runs before")
	require.Regexp(t, `(?m)^compile +\d+\.\d s .* s per 100 million parameters$`, text)
	require.Regexp(t, `(?m)^budget +(not met|met with(out)? the allowance of 0.5 s.*): compile`, text)
}

func TestDoctorSaysWhyAModelCannotRunAndWhatToDo(t *testing.T) {
	useCache(t)
	raw, err := os.ReadFile(story)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	for path, want := range map[string]string{
		write("foreign.gguf", bytes.ReplaceAll(raw, []byte("llama"), []byte("gromp"))): "do not select this model",
		write("cut.gguf", raw[:len(raw)/2]):                                            "the file is damaged",
		filepath.Join(dir, "gone.gguf"):                                                "no such file",
	} {
		_, err := sdnpu(t, "doctor", path)
		require.ErrorContains(t, err, want, path)
	}
	for _, flag := range [][]string{{"--rows", "1,2"}, {"--recipe", "w1"}, {"--context", "-3"}, {"--context", "9999"}, {"--blocks", "9"}} {
		_, err := sdnpu(t, append([]string{"doctor", story}, flag...)...)
		require.Error(t, err, flag)
	}
}

func TestTooLittleRoomIsSaidWithTheFigures(t *testing.T) {
	s := settings{cache: t.TempDir(), cacheSize: "unlimited"}
	var said string
	say := func(what, format string, _ ...any) { said += what + " " + format + "\n" }
	c := &checkup{settings: s, logger: newLogger(&bytes.Buffer{}, false)}
	c.result.Estimate.Disk = 1 << 60
	err := c.checkRoom(s.openCache(c.logger), say)
	require.ErrorIs(t, err, errNoRoom)
	require.ErrorContains(t, err, "of disk")
	require.NotContains(t, err.Error(), "of memory")
	c.flags.anyway = true
	require.NoError(t, c.checkRoom(s.openCache(c.logger), say))
	require.Contains(t, said, "warning")

	c.flags.anyway = false
	if _, known := freeMemory(); known {
		require.ErrorContains(t, c.checkRoom(nil, say), "of memory", "without a cache images stay in memory")
	}
	c.result.Estimate.Disk, c.result.Estimate.Memory = 1<<20, 0
	require.NoError(t, c.checkRoom(s.openCache(c.logger), say))
	s.cacheSize, said = "1KiB", ""
	require.NoError(t, c.checkRoom(s.openCache(c.logger), say))
	require.Contains(t, said, "SDNPU_CACHE_SIZE")
}

func TestALongImageGetsALineNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still
		var out bytes.Buffer
		b := newBar(&out)
		b.began = time.Now().Add(-20 * time.Second)
		p := engine.Progress{Done: 1, Total: 4, Graph: "block1", Weights: 400 << 20, WeightsDone: 100 << 20}
		for s := range 25 {
			p.Elapsed = time.Duration(s) * time.Second
			b.step(p)
		}
		p.Done, p.WeightsDone = 2, 200<<20
		b.step(p)
		b.step(p) // the clock and the end may tell both
		b.step(engine.Progress{Done: 2, Total: 4, Graph: "head"})
		b.step(engine.Progress{Done: 3, Total: 4, Graph: "head", Cached: true, Elapsed: time.Millisecond})
		again := engine.Progress{Total: 1, Graph: "block0"}
		b.step(again) // another load
		again.Done, again.Elapsed = 1, 2*time.Millisecond
		b.step(again)
		line := "compiling block1 (2 of 4): 100 MiB of 400 MiB, 20s so far, about 1m0s left\n"
		require.Equal(t, line+line+line+"compiled block1 in 24s (2 of 4)\nloaded head, compiled before (3 of 4)\ncompiled block0 in 2ms (1 of 1)\n", out.String())
	})
}

func TestTextsAreCountedOnce(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out)
	for done := range 4 {
		b.step(engine.Progress{Graph: comparing, Done: done, Total: 3})
	}
	require.Equal(t, "comparing with float (1 of 3)\ncomparing with float (2 of 3)\ncomparing with float (3 of 3)\n", out.String())
}

func TestAFreshCheckupRemovesTheFoldersOfKilledOnes(t *testing.T) {
	parent := filepath.Dir(useCache(t))
	long := time.Now().Add(-2 * freshAge)
	folder := func(name, file string, at time.Time) string {
		path := filepath.Join(parent, name, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	killed := folder("doctor-1", freshLock, long)
	used, err := os.Open(folder("doctor-2", freshLock, long))
	require.NoError(t, err)
	defer used.Close()
	require.NoError(t, filelock.Try(used, true))
	young := folder("doctor-3", freshLock, time.Now())
	foreign := folder("doctor-notes", "letter", long)
	c := checkup{settings: settings{cache: filepath.Join(parent, "images")}}
	remove, err := c.freshCache()
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Dir(killed))
	for _, path := range []string{used.Name(), young, foreign} {
		require.FileExists(t, path)
	}
	require.NoError(t, os.Chtimes(filepath.Join(c.settings.cache, freshLock), long, long))
	removeLeftFolders(parent)
	require.DirExists(t, c.settings.cache, "it is held")
	remove()
	require.NoDirExists(t, c.settings.cache)
}
