package engine

import (
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Work is what the CPU did for a request between passes of the device, or beside
// them.
type Work struct {
	// Kind is graphswap's: [graphswap.Draft], [graphswap.Sample] or
	// [graphswap.Calibrate].
	Kind  string
	Began time.Time
	Took  time.Duration
}

// maxWork bounds what is written down of a request: some for each decode pass.
const maxWork = 3 * maxVerified

// worked writes down what time was spent on.
func (g *generation) worked(kind string, s spent) {
	if len(g.report.CPU) < maxWork {
		g.report.CPU = append(g.report.CPU, Work{kind, s.began, s.wall})
	}
}

// behind writes down what came after the prompt: passes, once it is known what of
// their drafts was right, and the CPU's work. On a device with a clock of its own,
// where nothing overlaps, each follows what is there already; the CPU's time is
// this machine's there too. The lane holds one task at a time: work that began
// beside other work is shown from where that ended.
func (r *recorder) behind(passes []Verification, work []Work, blocks, widest int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chunk, end, cpu := 0, 0.0, 0.0
	for _, t := range r.timeline.Tasks {
		if t.Kind == graphswap.Run {
			chunk = max(chunk, t.Chunk+1)
		}
		end = max(end, t.EndMs)
	}
	virtual := len(passes) > 0 && passes[0].Device > 0
	passes = passes[:min(len(passes), maxVerified)]
	work = slices.Clone(work) // what went on beside others was written down when it ended
	slices.SortStableFunc(work, func(a, b Work) int { return a.Began.Compare(b.Began) })
	for len(passes) > 0 || len(work) > 0 {
		if len(passes) == 0 || len(work) > 0 && !work[0].Began.After(passes[0].Began) {
			w := work[0]
			work = work[1:]
			from, to := max(cpu, r.at(w.Began)), r.at(w.Began.Add(w.Took))
			if virtual {
				from, to = end, end+milliseconds(w.Took)
				end = to
			}
			if to > from {
				cpu = to
				r.timeline.Tasks = append(r.timeline.Tasks, graphswap.Task{
					Lane: graphswap.CPU, Kind: w.Kind, StartMs: from, EndMs: to, Block: -1, Index: -1,
				})
			}
			continue
		}
		v, g := passes[0], graphswap.G2
		passes = passes[1:]
		from := max(0, r.at(v.Began))
		to := max(from, r.at(v.Began.Add(v.Pass)))
		if v.Device > 0 {
			from, to = end, end+milliseconds(v.Device)
			end = to
		}
		if v.Width == widest {
			g = graphswap.G1
		}
		r.timeline.Tasks = append(r.timeline.Tasks, graphswap.Task{
			Lane: graphswap.NPU, Kind: graphswap.Verify, StartMs: from, EndMs: to, Block: -1, Graph: g, Index: -1, Chunk: chunk,
			Runs: blocks, Rows: v.Width, Valid: 1 + v.Accepted + v.Shared, Wasted: v.Drafted - v.Accepted,
		})
		chunk++
	}
}
