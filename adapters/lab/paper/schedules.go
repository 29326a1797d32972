package paper

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sdnpu/sdnpu/adapters/lab/shadow"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/headpipe"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// llmnpuOrder makes the bubbles and prefill speeds of llm.npu's policies, as the command
// `sdnpu-lab shadow order` simulates them.
func llmnpuOrder(_ context.Context, t *Table, _ *Data, l library) error {
	costs := &shadow.KnownCosts[0]
	for _, prompt := range []struct {
		name   string
		chunks int
	}{{"512 tokens", 2}, {"1024 tokens", 4}} {
		o, err := shadow.NewOrder(costs, prompt.chunks, outoforder.DefaultWindow)
		if err != nil {
			return err
		}
		for _, p := range o.Policies {
			name := prompt.name + ", " + p.Policy.String()
			bubbles := Row{What: name + ": bubbles", Unit: "%", Ours: exactly(100 * p.Bubbles), Mark: Simulated}
			rate := Row{What: name + ": prefill", Unit: "tokens/s", Ours: exactly(1000 * float64(prompt.chunks*costs.Rows) / p.MakespanMs), Mark: Simulated}
			saved := Row{What: name + ": time saved against in_order", Unit: "%", Ours: exactly(-100 * p.Change), Mark: Simulated}
			switch p.Policy {
			case outoforder.InOrder:
				bubbles.Published = l.value("§3.4", "", "", "naive overlap", "bubble_rate_critical_path")
				t.add(bubbles)
				t.add(rate)
				continue
			case outoforder.CRule:
				rate.Published, rate.Bound = l.value("abstract", costs.Name, "", "ours", "prefill_rate_min"), "≥"
				if prompt.chunks == 2 {
					saved.Published = l.between("Fig. 17", "", "prompt 512", "+out-of-order", "latency_cut_min", "latency_cut_max")
				}
			}
			t.add(bubbles)
			t.add(rate)
			t.add(saved)
		}
	}
	t.note("The costs are those of %s, %s, in chunks of 256 tokens. In the paper, c_rule is the policy. "+
		"The published time saved is the range of three models. The NPU's 315 ms for 256 tokens are published, so a prefill above 813 tokens/s is impossible with these costs.",
		costs.Name, costs.Origin)
	return nil
}

// The published case of shared graphs: the weights of the projections of Qwen1.5-1.8B, and a prompt
// of four chunks.
const (
	sharedLayers = 24
	sharedLayer  = 4*2048*2048 + 3*2048*5504
	sharedChunks = 4
)

// llmnpuSharing compares one graph set for each chunk's position with one that all chunks share.
// The tests of package sharing count the same on compiled graphs.
func llmnpuSharing(_ context.Context, t *Table, _ *Data, l library) error {
	const model, system = "qwen1.5-1.8b", "chunk-sharing"
	value := func(metric string) Range { return l.value("§3.2", model, "", system, metric) }
	one := sharedLayers * sharedLayer / 1e9
	subgraphs := Range{}
	if shared, all := value("subgraphs_shared"), value("subgraphs_total"); shared.Known && all.Known {
		subgraphs = exactly(100 * shared.Low / all.Low)
	}
	t.add(Row{What: "subgraphs that all chunks share", Unit: "%", Published: subgraphs, Ours: exactly(100), Mark: Counted})
	t.add(Row{What: "weights of one graph set, 8 bits", Unit: "GB", Ours: exactly(one), Mark: Counted})
	t.add(Row{What: "1024 tokens in chunks of 256: memory saved", Unit: "%", Published: value("memory_saving"), Ours: exactly(100 * (1 - 1.0/sharedChunks)), Mark: Counted})
	t.add(Row{What: "1024 tokens in chunks of 256: memory saved", Unit: "GB", Published: value("memory_saving_abs"), Ours: exactly(one * (sharedChunks - 1)), Mark: Counted})
	t.note("Ours: the projections of 24 layers. The published 7.2 GB are 75 %% of 9.6 GB, so a published graph set has 2.4 GB, twice the weights in 8 bits. " +
		"Here the graphs of a block do not depend on a chunk's position, so chunks share attention, too.")
	return nil
}

// llmnpuAblation adds the techniques of llm.npu one after the other, as the command `sdnpu-lab shadow
// ablation` does.
func llmnpuAblation(_ context.Context, t *Table, _ *Data, l library) error {
	device, err := graphswap.Device("sd8gen3")
	if err != nil {
		return err
	}
	costs := &shadow.KnownCosts[0]
	const chunks = 2
	times := make(map[string][]float64)
	var names []string
	for _, slowdown := range shadow.PublishedGroupSlowdown {
		a, err := shadow.NewAblation(costs, chunks, outoforder.DefaultWindow, costs.LoadTime(device), slowdown)
		if err != nil {
			return err
		}
		for _, s := range a.Steps[1:] {
			if times[s.Name] == nil {
				names = append(names, s.Name)
			}
			times[s.Name] = append(times[s.Name], s.Times)
		}
	}
	for _, name := range names {
		published := Range{}
		switch name {
		case "+ chunk sharing":
			published = l.between("Fig. 17", "", "", "+chunk-sharing", "speedup_min", "speedup_max")
		case "+ shadow outliers":
			published = l.between("Fig. 17", "", "", "+shadow outliers", "speedup_min", "speedup_max")
		case "+ out of order": // a cut of 18 % is a speed-up of 1 / 0.82
			if cut := l.between("Fig. 17", "", "prompt 512", "+out-of-order", "latency_cut_min", "latency_cut_max"); cut.Known {
				published = Range{true, 1 / (1 - cut.Low/100), 1 / (1 - cut.High/100)}
			}
		}
		t.add(Row{What: name + ": prefill against the row before", Unit: "times as fast", Published: published, Ours: spread(times[name]), Mark: Simulated})
	}
	t.note("A prompt of %d × 256 tokens with the costs of %s, %s. The naive system loads the graphs of each chunk's position, and each group of its weights "+
		"has its own scale, which makes products %v to %v times as long, as published. The published naive system also builds its graphs for each prompt.",
		chunks, costs.Name, costs.Origin, shadow.PublishedGroupSlowdown[0], shadow.PublishedGroupSlowdown[1])
	return nil
}

// shadowattnGain gives the largest possible speed-up by sparse attention: with attention that takes no
// time at all, a prompt takes the time of its projections. Ours counts the multiplications of Qwen2.5-1.5B.
func shadowattnGain(_ context.Context, t *Table, _ *Data, l library) error {
	const hidden, kv, inner = 1536, 256, 8960
	const projections = 2*hidden*hidden + 2*hidden*kv + 3*hidden*inner
	for _, tokens := range []int{4096, 16384, 32768} {
		attention := 2 * hidden * float64(tokens) / 2 // queries by keys and weights by values; a row has half of the keys on average
		row := Row{What: fmt.Sprintf("prompt of %d tokens: largest possible speed-up", tokens), Unit: "times as fast", Ours: exactly(1 + attention/projections), Mark: Counted}
		if tokens == 4096 {
			row.Published = l.between("§5.1", "", "", "ours / C/G-Full", "end_to_end_speedup_avg", "end_to_end_speedup_max")
		}
		t.add(row)
	}
	t.note("If attention and projections are computed at the same rate, no technique for attention alone is faster. The published values are of prompts of 1792 to 4096 tokens. The paper compares with float attention on " +
		"the CPU or GPU, next to projections on the NPU; here, dense attention is in the NPU's graphs.")
	return nil
}

// headSets is the number of random layers of the item shadowattn-order.
const headSets = 200

// shadowattnOrder compares orders of heads, as the command `sdnpu-lab attention pipeline` does.
func shadowattnOrder(_ context.Context, t *Table, _ *Data, _ library) error {
	for _, e := range headpipe.Compare(rand.New(rand.NewPCG(1, 2)), headSets, false) {
		t.add(Row{What: e.Name + ": mean", Unit: "of least makespan", Ours: exactly(e.Mean), Mark: Simulated})
		t.add(Row{What: e.Name + ": worst", Unit: "of least makespan", Ours: exactly(e.Worst), Mark: Simulated})
	}
	t.note("Ours: %d random layers of one to seven heads, on two lanes of the CPU. The paper prints no makespans; its order is `published`, ours is `plan`.", headSets)
	return nil
}
