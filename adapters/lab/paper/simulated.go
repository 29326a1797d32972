package paper

import (
	"context"

	"github.com/sdnpu/sdnpu/graphswap"
)

// costOf returns the costs of the main model on a phone.
func costOf(phone string) (*graphswap.Cost, error) {
	profile, err := graphswap.Device(phone)
	if err != nil {
		return nil, err
	}
	return profile.Cost(mainModel)
}

// passMs returns the time of a pass with logits of all rows.
func passMs(c *graphswap.Cost, rows int) float64 { return c.Pass(rows, simulatedContext, 2, rows) }

// fig3 makes Fig. 3: what padding costs.
func fig3(_ context.Context, t *Table, _ *Data, l library) error {
	published := l.value("Fig. 3 ", "", "", "decode on prefill graph (padding)", "slowdown_max")
	for _, phone := range phones {
		c, err := costOf(phone)
		if err != nil {
			return err
		}
		t.add(Row{What: phone + ": 256 rows against 32", Unit: "×", Published: published, Bound: "≤", Ours: exactly(passMs(c, 256) / passMs(c, 32)), Mark: Simulated})
		t.add(Row{What: phone + ": 256 rows against 1", Unit: "×", Published: published, Bound: "≤", Ours: exactly(passMs(c, 256) / passMs(c, 1)), Mark: Simulated, Fitted: phone == mainPhone})
	}
	t.note("The paper does not name the graph of few rows. Ours: %s, logits of all rows.", mainModel)
	return nil
}

// fig6a makes CoordGen's Fig. 6: the cost of verification.
func fig6a(_ context.Context, t *Table, _ *Data, l library) error {
	for _, phone := range []string{"sd8gen3", mainPhone} {
		c, err := costOf(phone)
		if err != nil {
			return err
		}
		for _, rows := range []int{1, 8, 16, 32, 64} {
			row := Row{What: phone + ": " + draftLength(rows), Unit: "ms/token", Ours: exactly(passMs(c, rows) / float64(rows)), Mark: Simulated}
			if phone == "sd8gen3" {
				row.Published = l.value("Fig. 6", mainModel, "summary", "verification, "+draftLength(rows), "verify_cost")
				row.Fitted = row.Published.Known
			}
			t.add(row)
		}
	}
	t.note("With 64 rows, a token costs hardly less than with 32: the tile of the matrix unit has 32 rows. Near-constant passes up to saturation hold on the 8 Gen 2 only.")
	return nil
}

func draftLength(rows int) string {
	return map[int]string{1: "draft length 1", 8: "draft length 8", 16: "draft length 16", 32: "draft length 32", 64: "draft length 64"}[rows]
}

// fig13 makes Fig. 13: memory.
func fig13(_ context.Context, t *Table, _ *Data, l library) error {
	c, err := costOf(mainPhone)
	if err != nil {
		return err
	}
	plain := c.PeakGB(0)
	t.add(Row{What: "NPU", Unit: "GB", Published: l.between("Fig. 13", mainModel, "", "mllm(NPU)", "peak_memory_min", "peak_memory_max"), Ours: exactly(plain), Mark: Simulated})
	t.add(Row{What: "ours, graphs that share weights", Unit: "GB", Published: l.value("Fig. 13", mainModel, "", "ours", "peak_memory"), Ours: exactly(plain), Mark: Simulated})
	for _, blocks := range []float64{2, 4, 7, 14} {
		t.add(Row{
			What: "ours, spare slot, " + map[float64]string{2: "2", 4: "4", 7: "7", 14: "14"}[blocks] + " blocks", Unit: "GB",
			Published: l.value("Fig. 13", mainModel, "", "ours", "peak_memory"), Ours: exactly(c.PeakGB(1 / blocks)), Mark: Simulated,
		})
	}
	drafter := (float64(c.Model.BodyBytes)/float64(c.Model.Layers) + float64(c.Model.HeadBytes)) / 1e9
	t.add(Row{What: "drafter of EAGLE-2: one layer and a head", Unit: "GB", Published: l.between("Fig. 13", "", "", "SpecInfer minus mllm(NPU)", "memory_overhead_min", "memory_overhead_max"), Ours: exactly(drafter), Mark: Simulated})
	t.note("Two blocks hide their loads only with a spare slot, which takes %.2f GB more than the published 3.14 GB allow: the published times and the published memory belong to different settings.", c.PeakGB(0.5)-3.14)
	return nil
}

// coordgenFig5 makes CoordGen's Fig. 5: prompt and answer on one graph of 32 rows.
func coordgenFig5(_ context.Context, t *Table, _ *Data, l library) error {
	c, err := costOf("sd8gen3")
	if err != nil {
		return err
	}
	accept := l.value("Fig. 5 / §2.3", mainModel, "", "fixed", "accept_length")
	t.add(Row{What: "prefill on the graph of 32 rows", Unit: "ms/token", Published: l.value("Fig. 5 / §2.3", mainModel, "", "chunk-32 graph", "prefill_cost_max"), Bound: "≤", Ours: exactly(c.Pass(32, simulatedContext, 2, 0) / 32), Mark: Simulated})
	t.add(Row{What: "decoding on the graph of 32 rows, 4.2 tokens per pass", Unit: "ms/token", Published: l.value("Fig. 5 / §2.3", mainModel, "", "decode on the same graph, accept 4.2", "decode_cost"), Ours: exactly(passMs(c, 32) / accept.Low), Mark: Simulated})
	t.add(Row{What: "decoding on the graph of 32 rows, token by token", Unit: "ms/token", Published: l.value("Fig. 5 / §2.3", mainModel, "", "decode on the same graph, accept 4.2", "decode_cost"), Ours: exactly(passMs(c, 32)), Mark: Simulated})
	t.add(Row{What: "decoding on the graph of 128 rows, 4.2 tokens per pass", Unit: "ms/token", Published: l.value("Fig. 5 / §2.3", mainModel, "", "decode on the same graph, accept 4.2", "decode_cost"), Ours: exactly(passMs(c, 128) / accept.Low), Mark: Simulated})
	t.note("The published 160 ms per token contradict the same paper's verification of 32 rows in 182 ms at 4.2 tokens per pass, which gives 43 ms. They fit a graph of 128 rows, or one token per pass.")
	return nil
}
