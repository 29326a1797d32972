package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
