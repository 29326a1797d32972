package paper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Measurement holds figures of one model that take minutes to compute, so that they are kept in a
// file.
type Measurement struct {
	Model string `json:"model"` // Model is the name of the model's file
	Item  string `json:"item"`  // Item is the item that prints the figures
	What  string `json:"what"`  // What is what was measured, for example a technique
	// Settings describes the texts and sizes of the measurement.
	Settings string             `json:"settings"`
	Values   map[string]float64 `json:"values"`
}

// The items whose figures are measurements of the model.
const (
	AccuracyItem = "llmnpu-accuracy"
	QualityItem  = "shadowattn-quality"
	RecallItem   = "shadowattn-recall"
	KernelItem   = "shadowattn-kernel"
)

// The names of the values of measurements.
const (
	Points      = "points"      // Points is the change of accuracy in percentage points
	Uncertainty = "uncertainty" // Uncertainty is the standard error of Points
	Perplexity  = "perplexity"
	Same        = "same_top_token" // Same is the fraction of positions with the most likely token of float32
	Kept        = "kept"           // Kept is the fraction of the keys that rows attend to
	MeanRecall  = "recall"         // MeanRecall is the mean of all heads
	WorstRecall = "worst_recall"   // WorstRecall is that of the worst head
	WithPilot   = "with_pilot"     // WithPilot is the speed-up over dense attention if another unit estimates the scores
	OneCore     = "one_core"       // OneCore is the time on one core, divided by that of dense attention
)

// ReadMeasurements parses a file with one measurement per line. It ignores an incomplete last line,
// which an interruption may have left.
func ReadMeasurements(text []byte) (list []Measurement, err error) {
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var m Measurement
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(list)+1, err)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Values)) {
			if v := m.Values[name]; math.IsNaN(v) || math.Abs(v) > 1e9 {
				return nil, fmt.Errorf("line %d: impossible %.40q: %v", len(list)+1, name, v)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// find returns the latest measurement of the model.
func (d *Data) find(item, what string) *Measurement {
	for i := len(d.Measurements) - 1; i >= 0; i-- {
		if m := &d.Measurements[i]; m.Model == d.Model && m.Item == item && m.What == what {
			return m
		}
	}
	return nil
}

// measured returns a value, times a factor, of a measurement of the model.
func (d *Data) measured(item, what, value string, factor float64) Range {
	m := d.find(item, what)
	if m == nil {
		return Range{}
	}
	v, ok := m.Values[value]
	if !ok {
		return Range{}
	}
	return exactly(factor * v)
}

// settings returns what the measurements of an item say about texts and sizes.
func (d *Data) settings(item string) string {
	var all []string
	for i := range d.Measurements {
		if m := &d.Measurements[i]; m.Model == d.Model && m.Item == item && !slices.Contains(all, m.Settings) {
			all = append(all, m.Settings)
		}
	}
	if len(all) == 0 {
		return "not measured"
	}
	return strings.Join(all, "; ")
}
