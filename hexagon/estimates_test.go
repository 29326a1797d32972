package hexagon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// estimating watches the graphs of a device that estimate scores, and makes them fail.
type estimating struct {
	backend.Device
	fails string // fails is the call that fails: "compile", "load", "run" or ""
	image []byte // image is the last image of graphs that estimate scores
	runs  int    // runs counts the runs of all graphs, and first is the number of the first estimate
	first int
	// failure joins the errors of the runs that estimated scores.
	failure error
}

// errRefused is an error that says nothing about the device as a whole.
var errRefused = errors.New("the device refuses this graph")

func estimates(graph string) bool { return strings.HasPrefix(graph, "scores_") }

func (d *estimating) Compile(ctx context.Context, w io.Writer, graphs ...*backend.Graph) error {
	if !estimates(graphs[0].Name) {
		return d.Device.Compile(ctx, w, graphs...)
	}
	if d.fails == "compile" {
		return errRefused
	}
	var image bytes.Buffer
	if err := d.Device.Compile(ctx, &image, graphs...); err != nil {
		return err
	}
	d.image = image.Bytes()
	_, err := w.Write(d.image)
	return err
}

func (d *estimating) Load(ctx context.Context, image backend.Image) (backend.Program, error) {
	if d.fails == "load" && bytes.Equal(image.Bytes, d.image) {
		return nil, errRefused
	}
	p, err := d.Device.Load(ctx, image)
	return estimatingProgram{p, d}, err
}

type estimatingProgram struct {
	backend.Program
	of *estimating
}

func (p estimatingProgram) Run(ctx context.Context, graph string, b []backend.Binding) error {
	p.of.runs++
	if !estimates(graph) {
		return p.Program.Run(ctx, graph, b)
	}
	if p.of.first == 0 {
		p.of.first = p.of.runs
	}
	if p.of.fails == "run" {
		return errRefused
	}
	err := p.Program.Run(ctx, graph, b)
	p.of.failure = errors.Join(p.of.failure, err)
	return err
}

// TestThePromptGoesOnWithoutGraphsOfScores makes the graphs that estimate scores fail on the emulator. Keys
// and values equal the undisturbed ones to the bit.
func TestThePromptGoesOnWithoutGraphsOfScores(t *testing.T) {
	library := librarytest.Emulator(t)
	plain, want := promptAndCache(t, openDevice(t, library), fifth)
	require.Zero(t, plain.Host.ProcessorLaunches)
	for _, fails := range []string{"compile", "load", "run"} {
		var log bytes.Buffer
		a := fifth
		a.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r, got := promptAndCache(t, &estimating{Device: openDevice(t, library), fails: fails}, a)
		require.Equal(t, plain.Output, r.Output, fails)
		require.True(t, slices.Equal(want, got), fails)
		require.Equal(t, plain.Host.Launches, r.Host.ProcessorLaunches, fails)
		require.Zero(t, r.Host.Launches)
		require.Contains(t, log.String(), errRefused.Error())
	}
}

// TestOneFailedExecuteOfAnEstimate uses the emulator's failures: the first execute that estimates scores fails
// alone, or because the DSP has restarted.
func TestOneFailedExecuteOfAnEstimate(t *testing.T) {
	first := 0
	if os.Getenv(pacedLibrary) == "" { // the parent counts executes
		d := &estimating{Device: openDevice(t, librarytest.Emulator(t))}
		promptOnHost(t, d, fifth)
		first = d.first
	}
	for _, code := range []int{6003, 1007} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			paced(t, fmt.Sprintf("fail_execute=%d@%d", code, first), func(t *testing.T, library string) {
				d := &estimating{Device: openDevice(t, library)}
				r, got := promptAndCache(t, d, fifth)
				plain, want := promptAndCache(t, d, fifth)
				require.Equal(t, plain.Output, r.Output)
				require.True(t, slices.Equal(want, got))
				require.Zero(t, plain.Host.ProcessorLaunches)
				require.ErrorContains(t, d.failure, fmt.Sprintf("code %d", code))
				if code == 1007 {
					require.ErrorIs(t, d.failure, backend.ErrRestarted)
					require.Zero(t, r.Host.ProcessorLaunches, "after a restart, the device estimates again")
				} else {
					require.EqualValues(t, 1, r.Host.ProcessorLaunches)
				}
			})
		})
	}
}
