package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// writtenCodes is a file of codes of two matrices.
func writtenCodes(t *testing.T) (data []byte, id string, matrices map[string][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	matrices = map[string][]byte{"a": make([]byte, 300), "b": make([]byte, 77)}
	var b bytes.Buffer
	w := codesWriter{w: &b}
	for _, name := range []string{"b", "a"} {
		for i := range matrices[name] {
			matrices[name][i] = byte(rng.Uint32())
		}
		require.NoError(t, w.keep(name, matrices[name]))
	}
	id, err := w.finish()
	require.NoError(t, err)
	return b.Bytes(), id, matrices
}

func TestCodesAreReadAsTheyWereWrittenAndCopied(t *testing.T) {
	data, id, matrices := writtenCodes(t)
	path := filepath.Join(t.TempDir(), "x.codes")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	r, err := openCodes(path, id)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a"}, r.Constants)
	for name, want := range matrices {
		got, err := r.Codes(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = r.Codes("c")
	require.ErrorIs(t, err, errCodes)
	require.NoError(t, copyCodes(t.Context(), path+"2", r))
	copied, err := os.ReadFile(path + "2")
	require.NoError(t, err)
	require.Equal(t, data, copied)
	require.Equal(t, "m.codes", codesBeside("m.json"))
}

// TestDamagedCodesAreRefused turns every byte round, and cuts the file anywhere.
func TestDamagedCodesAreRefused(t *testing.T) {
	data, id, matrices := writtenCodes(t)
	right := func(data []byte) bool {
		r, err := readCodes(data, id)
		if err != nil {
			require.ErrorIs(t, err, errCodes)
			return false
		}
		for name := range matrices {
			if _, err := r.Codes(name); err != nil {
				require.ErrorIs(t, err, errCodes)
				return false
			}
		}
		return true
	}
	require.True(t, right(data))
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 0x55
		require.False(t, right(damaged), "byte %d", i)
		require.False(t, right(data[:i]), "%d bytes", i)
	}
	require.False(t, right(binary.LittleEndian.AppendUint64(nil, 1<<63)))
	_, err := readCodes(data, "another")
	require.ErrorIs(t, err, errCodes)
}

// What calibration rounded reaches the process that compiles, from its file and
// without one.
func TestRoundedMatricesAreCompiledInAnotherProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the emulator")
	}
	run := func(cache, compile string) string {
		t.Setenv("SDNPU_CACHE", cache)
		t.Setenv("SDNPU_COMPILE", compile)
		t.Setenv("SDNPU_GATE", "off")
		out, err := sdnpu(t, "run", "--model", story, "--library", "emulator", "--recipe", "w8a16", "--prompt", "One day, Tom", "-n", "24", "--temperature", "0")
		require.NoError(t, err)
		return out
	}
	want := run(t.TempDir(), "inline")
	require.Equal(t, want, run(t.TempDir(), ""))
	require.Equal(t, want, run("off", ""))
}
