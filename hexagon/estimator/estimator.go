// Package estimator estimates how long a graph runs on a chip. It asks the
// vendor's compiler to simulate the schedule of the graph, an option that the
// vendor calls "hextimate", and reads the trace that the compiler writes.
//
// The compiler's simulation knows no driver, no thermal limit and no other user
// of the memory. Use the results as ratios between graphs, not as times of a
// phone. The estimate is the laboratory's: nothing that runs a model calls it.
//
// # Invariants
//
//   - an estimate leaves nothing loaded: the compiled graph is discarded,
//     because the options that make the compiler simulate also change its output;
//   - estimates of one device run one at a time (see
//     [hexagon.Device.BuildAndDiscard], which owns the lock);
//   - the trace is a temporary file, bounded in size and deleted afterwards.
//
// An estimate costs one compilation of the graph: seconds for a layer, minutes
// for a large head.
package estimator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// turboCorner is the voltage corner of the simulation: the highest corner that
// a chip sustains.
const turboCorner = 7

// traceLimit bounds the schedule that the compiler writes, in bytes.
const traceLimit = 512 << 20

// Estimate is the compiler's prediction for one run of a graph.
type Estimate struct {
	Graph string
	// Cycles of the core at MHz give Time.
	Cycles, MHz float64
	Time        time.Duration
	// ReadBytes and WriteBytes pass between the chip's memory and VTCM, the fast
	// memory of the vector units.
	ReadBytes, WriteBytes uint64
	// SpillBytes and FillBytes are the part of them that did not fit into VTCM.
	SpillBytes, FillBytes uint64
	// MemoryGBps is the memory bandwidth that the simulation assumes.
	MemoryGBps float64
}

// Options changes how the graph is compiled. The zero value compiles it as
// [hexagon.Device.Compile] does.
type Options struct {
	// Optimization is the compiler's effort, 1 to 3.
	Optimization int
	// VTCMMegabytes bounds VTCM.
	VTCMMegabytes uint32
}

// ErrNotSimulated is returned when the library simulates no schedules. It
// matches [errors.ErrUnsupported].
var ErrNotSimulated = fmt.Errorf("the library simulates no schedules: %w", errors.ErrUnsupported)

// Compiler estimates graphs with the library of a device.
type Compiler struct{ Device *hexagon.Device }

// Estimate compiles a graph with simulation and discards the result.
func (c Compiler) Estimate(ctx context.Context, g *backend.Graph, o Options) (e Estimate, err error) {
	settings := qnn.GraphOptions{Optimization: o.Optimization, VTCMMegabytes: o.VTCMMegabytes}
	e, err = simulate(c.Device, settings, func(context *qnn.Context, o qnn.GraphOptions) error {
		return c.Device.Lower(ctx, context, g, o)
	})
	if err != nil {
		return e, fmt.Errorf("estimator: graph %q: %w", g.Name, err)
	}
	e.Graph = g.Name
	return e, nil
}

// simulate has the compiler simulate the one graph that build finalizes.
func simulate(d *hexagon.Device, o qnn.GraphOptions, build func(c *qnn.Context, o qnn.GraphOptions) error) (e Estimate, err error) {
	dir, err := os.MkdirTemp("", "sdnpu-estimate-")
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trace := filepath.Join(dir, "trace.json")
	o.Finalize = []qnn.FinalizeOption{
		{Key: "hextimate", Value: qnn.ScalarUint32(1)},
		{Key: "sim_trace_final", Text: trace},
		{Key: "sim_core_voltage_corner", Value: qnn.ScalarUint32(turboCorner)},
	}
	logged := make(map[string]uint64)
	err = d.BuildAndDiscard(
		func(c *qnn.Context) error { return build(c, o) },
		func(line string) { readLine(logged, line) })
	if err != nil {
		return e, err
	}
	if e, err = readTrace(trace); errors.Is(err, os.ErrNotExist) {
		return e, ErrNotSimulated
	}
	e.SpillBytes, e.FillBytes = logged["spill_bytes"], logged["fill_bytes"]
	return e, err
}

// readLine adds the numbers of a logged line to logged.
func readLine(logged map[string]uint64, line string) {
	for _, m := range loggedBytes.FindAllStringSubmatch(line, -1) {
		if n, err := strconv.ParseUint(m[2], 10, 64); err == nil {
			logged[m[1]] = n
		}
	}
}

// loggedBytes matches the numbers about VTCM that finalize logs at level info.
var loggedBytes = regexp.MustCompile(`\b(spill_bytes|fill_bytes)\s*=\s*([0-9]+)`)

// simulation is the part of the compiler's trace that is read: events in
// Chrome's trace format, with times in cycles of the core.
type simulation struct {
	Events []struct {
		Phase    string  `json:"ph"`
		Start    float64 `json:"ts"`
		Duration float64 `json:"dur"`
	} `json:"traceEvents"`
	Access struct {
		Read  uint64 `json:"total_num_dma_read_bytes"`
		Write uint64 `json:"total_num_dma_write_bytes"`
	} `json:"DMA/L2 Access Statistics"`
	Configuration struct {
		MHz           float64 `json:"sim_core_freq"`
		DDR           float64 `json:"sim_ddr_freq"`  // MHz; two transfers each
		DDRWidth      float64 `json:"sim_ddr_width"` // bytes
		DDRChannels   float64 `json:"sim_ddr_channels"`
		DDREfficiency float64 `json:"sim_ddr_efficiency"`
	} `json:"Hextimate Configuration"`
}

// maxTime rejects traces with absurd times: no graph runs this long.
const maxTime = 24 * time.Hour

// readTrace sums up the trace in a file.
func readTrace(path string) (e Estimate, err error) {
	f, err := os.Open(path)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return sumTrace(f)
}

// sumTrace sums up a trace.
func sumTrace(r io.Reader) (e Estimate, err error) {
	var s simulation
	if err := json.NewDecoder(io.LimitReader(r, traceLimit)).Decode(&s); err != nil {
		return e, fmt.Errorf("read the compiler's trace: %w", err)
	}
	for _, event := range s.Events {
		if event.Phase == "X" {
			e.Cycles = max(e.Cycles, event.Start+event.Duration)
		}
	}
	c := s.Configuration
	if e.MHz = c.MHz; e.Cycles <= 0 || c.MHz <= 0 {
		return e, fmt.Errorf("read the compiler's trace: %v cycles at %v MHz: both must be positive", e.Cycles, e.MHz)
	}
	ns := e.Cycles / c.MHz * 1e3 // a cycle is 1000/MHz ns
	if !(ns < float64(maxTime)) {
		return e, fmt.Errorf("read the compiler's trace: %v cycles at %v MHz take longer than %v", e.Cycles, e.MHz, maxTime)
	}
	e.Time = time.Duration(ns)
	e.ReadBytes, e.WriteBytes = s.Access.Read, s.Access.Write
	e.MemoryGBps = 2 * c.DDR * c.DDRWidth * c.DDRChannels * cmp.Or(c.DDREfficiency, 1) / 1e3
	return e, nil
}
