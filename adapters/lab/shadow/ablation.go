package shadow

import (
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// Ablation holds the simulated prefill times of a prompt as llm.npu's techniques are added one after
// the other, in the order of figure 17 of the paper.
type Ablation struct {
	Costs  string `json:"costs"`
	Origin string `json:"origin"`
	Chunks int    `json:"chunks"`
	Rows   int    `json:"rows_per_chunk"`
	// LoadMs is the time of loading the graphs of one chunk's position.
	LoadMs float64 `json:"load_ms"`
	// GroupSlowdown is the factor by which products take longer if groups of weights have scales of
	// their own.
	GroupSlowdown float64        `json:"group_slowdown"`
	Steps         []AblationStep `json:"steps"`
}

// AblationStep is the prompt's time with the techniques up to one of them.
type AblationStep struct {
	Name  string  `json:"name"`
	Ms    float64 `json:"ms"`
	Rate  float64 `json:"tokens_per_s"` // Rate is the number of the prompt's tokens per second
	Times float64 `json:"times_faster"` // Times is the time of the step before, divided by Ms
	// Published is the published gain of the technique, for 512 tokens in three models.
	Published string `json:"published,omitempty"`
}

// PublishedGroupSlowdown holds the least and the largest factor of figure 4 of the paper, by which
// products with a scale for each group of weights take longer on the NPU.
var PublishedGroupSlowdown = [2]float64{8.1, 10.7}

// LoadTime returns the time in which a device loads the weights of all layers.
func (c *Costs) LoadTime(device *graphswap.Profile) time.Duration {
	ms := device.Load.LatencyMs + float64(c.WeightBytes)/1e6/device.Load.BandwidthGBps
	return time.Duration(ms * float64(time.Millisecond))
}

// NewAblation simulates a prompt in four systems:
//
//   - naive: each chunk has graphs for its position, which are loaded when the chunk begins, because the
//     memory holds the graphs of one position only. Groups of weights have scales of their own, and
//     chunks run in order;
//   - chunk sharing: all chunks use graphs that are loaded already;
//   - shadow: a tensor has one scale, and the CPU multiplies the outliers;
//   - out of order: the policy with the shortest schedule.
func NewAblation(c *Costs, chunks, window int, load time.Duration, slowdown float64) (*Ablation, error) {
	if slowdown < 1 || slowdown > 100 || load < 0 {
		return nil, fmt.Errorf("products take %v times as long, and a load takes %v: want a factor of 1..100, and a load of at least 0", slowdown, load)
	}
	slow := *c
	slow.Stages = append([]StageCost(nil), c.Stages...)
	for i := range slow.Stages {
		if slow.Stages[i].Lane == graphswap.NPU {
			slow.Stages[i].Ms, slow.Stages[i].GrowthMs = slowdown*slow.Stages[i].Ms, slowdown*slow.Stages[i].GrowthMs
		}
	}
	groups, err := slow.Problem(chunks, window)
	if err != nil {
		return nil, err
	}
	whole, err := c.Problem(chunks, window)
	if err != nil {
		return nil, err
	}
	shared := groups.Schedule(outoforder.InOrder).Makespan
	a := &Ablation{Costs: c.Name, Origin: c.Origin, Chunks: chunks, Rows: c.Rows, LoadMs: float64(load) / 1e6, GroupSlowdown: slowdown}
	for _, step := range []struct {
		name, published string
		took            time.Duration
	}{
		{"naive", "", shared + time.Duration(chunks)*load},
		{"+ chunk sharing", "1.46 to 5.09", shared},
		{"+ shadow outliers", "3.91 to 8.68", whole.Schedule(outoforder.InOrder).Makespan},
		{"+ out of order", "1.22 to 1.79", whole.Shortest().Makespan},
	} {
		s := AblationStep{Name: step.name, Ms: float64(step.took) / 1e6, Times: 1, Published: step.published}
		if n := len(a.Steps); n > 0 && s.Ms > 0 {
			s.Times = a.Steps[n-1].Ms / s.Ms
		}
		if s.Ms > 0 {
			s.Rate = float64(chunks*c.Rows) / s.Ms * 1e3
		}
		a.Steps = append(a.Steps, s)
	}
	return a, nil
}
