package hexagon

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
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// turboCorner is the voltage corner that estimates are made for unless they ask
// for another: the highest that a chip keeps up for long.
const turboCorner = 7

// traceLimit bounds the schedule that the compiler writes, in bytes.
const traceLimit = 512 << 20

// Estimate is what the vendor's compiler predicts of one run of a graph: its
// simulation of the schedule, which knows no driver, no thermal limit and no
// other user of the memory. It is good for ratios.
type Estimate struct {
	Graph string
	// Cycles of the core at MHz give Time.
	Cycles, MHz float64
	Time        time.Duration
	// ReadBytes and WriteBytes pass between the chip's memory and the fast
	// memory beside the units.
	ReadBytes, WriteBytes uint64
	// SpillBytes and FillBytes are of them what the fast memory had no room for.
	SpillBytes, FillBytes uint64
	// MemoryGBps is what the simulation takes the memory to give.
	MemoryGBps float64
}

// EstimateOptions are what graphs may be compiled with other than they are. The
// zero value is as they are.
type EstimateOptions struct {
	// Optimization is the compiler's effort, 1 to 3.
	Optimization int
	// VTCMMegabytes bounds the fast memory.
	VTCMMegabytes uint32
}

// Estimate compiles a graph as a simulation and throws it away: the options that
// make the compiler simulate also change what it makes. A library that does not
// simulate is [errors.ErrUnsupported].
func (d *Device) Estimate(ctx context.Context, g *backend.Graph, o EstimateOptions) (e Estimate, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hexagon: estimate %q: %w", g.Name, err)
		}
	}()
	if err := check([]*backend.Graph{g}); err != nil {
		return e, err
	}
	settings := qnn.GraphOptions{Optimization: cmp.Or(o.Optimization, d.optimization), VTCMMegabytes: o.VTCMMegabytes}
	e, err = d.simulate(settings, func(c *qnn.Context, o qnn.GraphOptions) error {
		_, err := d.lower(ctx, c, []*backend.Graph{g}, o)
		return err
	})
	e.Graph = g.Name
	return e, err
}

// ErrNoSchedules is returned when the library simulates none.
var ErrNoSchedules = fmt.Errorf("the library simulates no schedules: %w", errors.ErrUnsupported)

// simulate lets the compiler simulate the one graph that build finalizes.
func (d *Device) simulate(o qnn.GraphOptions, build func(c *qnn.Context, o qnn.GraphOptions) error) (e Estimate, err error) {
	d.estimating.Lock() // what the library logs does not say of which graph
	defer d.estimating.Unlock()
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
	said, err := d.listen(func(c *qnn.Context) error { return build(c, o) })
	if err != nil {
		return e, err
	}
	if e, err = readTrace(trace); errors.Is(err, os.ErrNotExist) {
		return e, ErrNoSchedules
	}
	e.SpillBytes, e.FillBytes = said["spill_bytes"], said["fill_bytes"]
	return e, err
}

// listen calls build with a context of its own and returns the numbers that the
// library logged meanwhile.
func (d *Device) listen(build func(c *qnn.Context) error) (said map[string]uint64, err error) {
	c, err := d.backend.NewContext(d.device, qnn.ContextOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	said = make(map[string]uint64)
	listen := func(line string) { hear(said, line) }
	d.listener.Store(&listen)
	defer d.listener.Store(nil)
	if err := d.log.SetLevel(qnn.LogInfo); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.log.SetLevel(qnn.LogWarn)) }()
	return said, build(c)
}

// hear takes the numbers of a line that the library logged.
func hear(said map[string]uint64, line string) {
	for _, m := range loggedBytes.FindAllStringSubmatch(line, -1) {
		if n, err := strconv.ParseUint(m[2], 10, 64); err == nil {
			said[m[1]] = n
		}
	}
}

// loggedBytes finds what finalize tells of the fast memory at level info.
var loggedBytes = regexp.MustCompile(`\b(spill_bytes|fill_bytes)\s*=\s*([0-9]+)`)

// simulation is the part of the compiler's trace that is read: events in the
// form of Chrome's tracing, with times in cycles of the core.
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

// longestRun is what no graph takes.
const longestRun = 24 * time.Hour

// readTrace sums up a trace in a file.
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
		return e, fmt.Errorf("the compiler's trace: %w", err)
	}
	for _, event := range s.Events {
		if event.Phase == "X" {
			e.Cycles = max(e.Cycles, event.Start+event.Duration)
		}
	}
	c := s.Configuration
	if e.MHz = c.MHz; e.Cycles <= 0 || c.MHz <= 0 {
		return e, fmt.Errorf("the compiler's trace tells no time: %v cycles at %v MHz", e.Cycles, e.MHz)
	}
	ns := e.Cycles / c.MHz * 1e3 // a cycle is 1000/MHz ns
	if !(ns < float64(longestRun)) {
		return e, fmt.Errorf("the compiler's trace tells of %v cycles at %v MHz, more than %v", e.Cycles, e.MHz, longestRun)
	}
	e.Time = time.Duration(ns)
	e.ReadBytes, e.WriteBytes = s.Access.Read, s.Access.Write
	e.MemoryGBps = 2 * c.DDR * c.DDRWidth * c.DDRChannels * cmp.Or(c.DDREfficiency, 1) / 1e3
	return e, nil
}
