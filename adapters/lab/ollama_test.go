package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeerNeedsThisMachineAndItsServer(t *testing.T) {
	for _, row := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--phones", "this-machine", "--systems", "off,llama.cpp"}, "--llama-server"},
		{[]string{"--systems", "off,llama.cpp", "--llama-server", "x"}, "want this-machine"},
		{[]string{"--phones", "this-machine", "--systems", "off,paper,llama.cpp", "--llama-server", "x"}, "a run of its own"},
	} {
		cmd := newOllamaCommand()
		cmd.SetArgs(append([]string{"--prompts", "p", "--model", "m"}, row.flags...))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		require.ErrorContains(t, cmd.Execute(), row.want)
	}
}
