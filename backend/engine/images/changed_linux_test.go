package images

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/internal/mapped"
)

// TestImagesOfChangedFilesAreNotKept compiles an image in this process and as a [Job]: both
// compilations must fail while a mapped file has lost its bytes.
func TestImagesOfChangedFilesAreNotKept(t *testing.T) {
	d, c, m := &sharing{Device: cpu.New(cpu.Options{})}, storyConfig(1, 4), storyModel(t)
	sets, err := WriteBlocks(m, c, 16)
	require.NoError(t, err)
	l := NewLoader(d, m, c, 16, sets)
	job, err := l.job(sets[0], 1)
	require.NoError(t, err)
	compile := map[string]func() error{
		"here": func() error {
			_, list, err := NewLoader(d, m, c, 16, sets).Load(t.Context(), sets[0])
			require.NoError(t, CloseAll(list))
			return err
		},
		"job": func() error { return job.Compile(t.Context(), d, m, io.Discard, func(int) {}) },
	}
	for name, f := range compile {
		require.NoError(t, f(), name)
	}
	lost := testfile.Lost(t)
	for name, f := range compile {
		before := d.compiles
		require.ErrorIs(t, f(), mapped.ErrGone, name)
		require.Greater(t, d.compiles, before, "the device itself had no error")
	}
	require.NoError(t, lost.Close())
	for name, f := range compile {
		require.NoError(t, f(), name)
	}
}
