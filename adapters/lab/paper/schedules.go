package paper

import (
	"context"
	"math/rand/v2"

	"github.com/sdnpu/sdnpu/adapters/lab/shadow"
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
