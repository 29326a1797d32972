package paper

import (
	"context"
	"math/rand/v2"

	"github.com/sdnpu/sdnpu/adapters/lab/headpipe"
	"github.com/sdnpu/sdnpu/adapters/lab/shadow"
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
