package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Item is a table or a figure of the papers.
type Item struct {
	Name, Title string
	// Needs are the runs that must be executed for the item.
	Needs []Need
	// Texts is set if the item replays recorded texts.
	Texts bool
	// Recorded is set if the item prints a [Measurement].
	Recorded bool
	fill     func(context.Context, *Table, *Data, library) error
}

// Find returns the items with the given names. The name "all" stands for all items.
func Find(names ...string) (list []Item, err error) {
	all := Items()
	if slices.Contains(names, "all") {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(i Item) bool { return i.Name == name })
		if i < 0 {
			var known []string
			for _, item := range all {
				known = append(known, item.Name)
			}
			return nil, fmt.Errorf("unknown table or figure %.80q: want all, or one of %s", name, strings.Join(known, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// Make computes an item from executed requests and recorded texts.
func (i *Item) Make(ctx context.Context, d *Data) (*Table, error) {
	records, err := Records()
	if err != nil {
		return nil, err
	}
	t := &Table{Item: i.Name, Title: i.Title}
	if err := i.fill(ctx, t, d, records); err != nil {
		return nil, fmt.Errorf("%s: %w", i.Name, err)
	}
	return t, nil
}

// Items returns all tables and figures, in the order in which they are printed.
func Items() []Item {
	return []Item{
		{"table2", "why drafts are rejected: rejected, yet said within " + fmt.Sprint(saidWithin) + " tokens", nil, true, false, rejections},
		{"table3", "time per output token of a whole request, one technique after the other", table3Needs(), false, false, table3},
		{"table4", "tokens per pass", main(Lookup, LookupAll, NPUSD, SAMData, SAMAll, Published), true, false, table4},
		{"fig2", "share of decoding in a request: NPU prefill, CPU decoding", main(NPU), false, false, fig2},
		{"fig3", "slowdown of decoding on the prefill graph", nil, false, false, fig3},
		{"fig4", "share of switching in decoding, all graphs loaded after the prefill", main(NPU, NPUSD), false, false, fig4},
		{"fig5", "lengths of drafts by prompt lookup", nil, true, false, fig5},
		{"fig6a", "time of a verification pass per drafted token", nil, false, false, fig6a},
		{"fig6b", "use of a verification pass of 32 rows", nil, true, false, fig6b},
		{"fig11", "speed-up of whole requests", comparedNeeds(phones...), false, false, fig11},
		{"fig12", "energy of whole requests", comparedNeeds(phones[:2]...), false, false, fig12},
		{"fig13", "memory", nil, false, false, fig13},
		{"fig14", "parts of a request, on the OnePlus 13", phoneNeeds("sd8elite"), false, false, fig14},
		{"coordgen-fig5", "prompt and answer on a graph of 32 rows, on the Redmi K70 Pro", nil, false, false, coordgenFig5},
		{"llmnpu-order", "llm.npu: bubbles and prefill of each policy", nil, false, false, llmnpuOrder},
		{"llmnpu-sharing", "llm.npu: memory of graphs that chunks share", nil, false, false, llmnpuSharing},
		{"llmnpu-ablation", "llm.npu: one technique after the other", nil, false, false, llmnpuAblation},
		{AccuracyItem, "llm.npu: accuracy of techniques", nil, false, true, llmnpuAccuracy},
		{"shadowattn-order", "shadowAttn: orders of the heads of a layer", nil, false, false, shadowattnOrder},
		{"shadowattn-gain", "shadowAttn: largest possible gain of a prompt", nil, false, false, shadowattnGain},
		{SpeedItem, "shadowAttn: time and energy of a prompt", nil, false, true, shadowattnSpeed},
		{QualityItem, "shadowAttn: quality of ways to attend", nil, false, true, shadowattnQuality},
		{RecallItem, "shadowAttn: keys that estimated scores find", nil, false, true, shadowattnRecall},
		{KernelItem, "shadowAttn: speed of the attention kernel on one core", nil, false, true, shadowattnKernel},
	}
}
