package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableEqualsProfiles(t *testing.T) {
	want, err := table()
	require.NoError(t, err)
	got, err := os.ReadFile("../csrc/pace/profiles_gen.c")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run make generate")
}
