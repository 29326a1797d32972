package images

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/imagecache"
)

// sharing is the float device, which reports constant sharing if a test asks for it.
type sharing struct {
	backend.Device
	shares   bool
	compiles int
}

func (d *sharing) Capabilities() backend.Capabilities {
	c := d.Device.Capabilities()
	c.SharesConstants = d.shares
	return c
}

func (d *sharing) Compile(ctx context.Context, w io.Writer, graphs ...*backend.Graph) error {
	d.compiles++
	return d.Device.Compile(ctx, w, graphs...)
}

// Load ignores Swap, which the float device does not support.
func (d *sharing) Load(ctx context.Context, image backend.Image) (backend.Program, error) {
	image.Swap = false
	return d.Device.Load(ctx, image)
}

// loadBlock loads the graphs of one block and returns the number of images.
func loadBlock(t *testing.T, d *sharing, c Config) int {
	t.Helper()
	m := storyModel(t)
	sets, err := WriteBlocks(m, c, 16)
	require.NoError(t, err)
	graphs, list, err := NewLoader(d, m, c, 16, sets).Load(t.Context(), sets[0])
	require.NoError(t, err)
	require.Len(t, graphs, len(c.Rows))
	for i, g := range graphs {
		require.Equal(t, sets[0][i].Name, g.Name)
	}
	require.Positive(t, TotalBytes(list))
	require.NoError(t, CloseAll(list))
	require.Zero(t, TotalBytes(list))
	return len(list)
}

func TestGraphsShareAnImageIfDeviceAndConfigAllowIt(t *testing.T) {
	for _, test := range []struct {
		shares, separate, swap bool
		images                 int
	}{
		{true, false, false, 1},
		{true, true, false, 2},
		{false, false, false, 2},
		{false, false, true, 1},
	} {
		d, c := &sharing{Device: cpu.New(cpu.Options{}), shares: test.shares}, storyConfig(1, 4, 1)
		c.Separate, c.Swap = test.separate, test.swap
		require.Equal(t, test.images, loadBlock(t, d, c), "%+v", test)
		require.Equal(t, test.images, d.compiles)
	}
}

func TestSeparateImagesInTheCacheServeADeviceThatShares(t *testing.T) {
	d, c := &sharing{Device: cpu.New(cpu.Options{})}, storyConfig(1, 4, 1)
	var err error
	c.Cache, err = imagecache.Open(t.TempDir(), imagecache.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, loadBlock(t, d, c))
	d.shares = true
	require.Equal(t, 2, loadBlock(t, d, c))
	require.Equal(t, 2, d.compiles, "the second start compiles nothing")
}

func TestAFreedImageIsReloadedFromItsBytes(t *testing.T) {
	d, c, m := &sharing{Device: cpu.New(cpu.Options{})}, storyConfig(1, 4), storyModel(t)
	sets, err := WriteBlocks(m, c, 16)
	require.NoError(t, err)
	l := NewLoader(d, m, c, 16, sets)
	i, err := l.LoadImage(t.Context(), sets[0])
	require.NoError(t, err)
	require.NoError(t, i.Free())
	require.NoError(t, i.Free(), "freeing twice does nothing")
	require.Zero(t, i.SizeBytes())
	require.NoError(t, i.Reload(t.Context(), l))
	require.Positive(t, i.SizeBytes())
	require.Equal(t, 1, d.compiles)
	require.NoError(t, i.Close())
}

func TestAJobCompilesOnlyItsOwnGraphs(t *testing.T) {
	d, c, m := &sharing{Device: cpu.New(cpu.Options{})}, storyConfig(1, 4), storyModel(t)
	sets, err := WriteBlocks(m, c, 16)
	require.NoError(t, err)
	job, err := NewLoader(d, m, c, 16, sets).job(sets[0], 1)
	require.NoError(t, err)
	filled := 0
	require.NoError(t, job.Compile(t.Context(), d, m, io.Discard, func(bytes int) { filled += bytes }))
	require.EqualValues(t, ConstantBytes(sets[0]), filled)
	job.Digest[0]++
	require.ErrorIs(t, job.Compile(t.Context(), d, m, io.Discard, func(int) {}), ErrJob)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job.Digest[0]--
	require.True(t, errors.Is(job.Compile(ctx, d, m, io.Discard, func(int) {}), context.Canceled))
}
