package estimate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/hexagon"
)

// table writes the record for people.
func table(r *record) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What the vendor's compiler predicts

Kind: estimated. Simulated by the compiler of libQnnHtp for x86-64, build %s, at the clock of corner 7
and with 90 %% of the memory's peak: good for ratios, too fast as times of a phone. Random weights in the
shapes of real models, one layer, %d past tokens; decode and prefill are of the whole model without host
and driver, with its head for decode, which was simulated whole at one row, or as eight eighths, marked so,
which is too much; its 32 rows are by the ratio of an eighth; recipes with the same head share it. A layer
alone pays for its inputs and outputs, which in a block only the first and the last do. Prefill is at
the best width that spills at most a twentieth of what it reads. Goals: 32 rows at most 1.2 times one row,
their reads at most 1.15 times weights (without their scales) and cache, no spill.

Written by: go test ./adapters/estimate -run TableOfEstimates -simulate -update -timeout 5h (testdata/estimates.json
keeps what was simulated; remove it to simulate all of it again; -recipe w4a16-lpbq: what one recipe lacks)

## Models

`, r.Build, pastTokens)
	r.models(&b)
	r.blocks(&b)
	fmt.Fprintf(&b, `
## Forms of a layer

µs at 1 / 32 / 128 rows, and MB spilled at 128; the first line of each group is what the program makes. %q has the
shapes of queries, angles and attention's result that the program gives graphs of other widths: up to %d rows it makes the
first line's, beyond them these would make a layer of one chip faster and of the others slower. No other form is faster at
32 rows on the whole, which a test holds. How single projections are written is compared in hexagon/testdata/estimated_forms.md.

`, formShapes, 64)
	fmt.Fprint(&b, "| model | chip | recipe | form | µs | spilled | 32 : 1 rows |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	r.forms(&b)
	fmt.Fprint(&b, "\n## Tokens a second beside published ones\n\nOurs of w8a16; published ones include host and driver.\n\n| chip | who | model | prefill | decode |\n| --- | --- | --- | --- | --- |\n")
	r.published(&b)
	return b.String()
}

// socs are the chips in the order of wants.
func socs() (list []hexagon.Chip) {
	for _, name := range allChips {
		if c, err := hexagon.FindChip(name); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// recipes are those of a shape and chip in the order of wants.
func recipes() (list []string) {
	for _, w := range wants {
		for _, name := range w.recipes {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

func (r *record) models(b *strings.Builder) {
	rows := []int{1, 8, 32, 64, 128, 256}
	fmt.Fprint(b, "| model | chip | recipe | µs a layer at 1 / 8 / 32 / 64 / 128 / 256 rows | MB spilled at these | head, µs at 1 / 32 | 32 : 1 rows | reads : weights and cache, 32 rows | decode, tokens/s | prefill, tokens/s at rows | 1024 tokens of prefill, ms a layer |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, shape := range shapes {
		for _, chip := range socs() {
			for _, recipe := range recipes() {
				s := r.result(shape, chip.SoC, recipe, "")
				if _, known := s.Find("layer", 1); !known {
					continue
				}
				var us, spill []string
				for _, n := range rows {
					g, known := s.Find("layer", n)
					us, spill = append(us, known0(known, "%.0f", g.Us)), append(spill, known0(known, "%.1f", float64(g.SpillBytes)/1e6))
				}
				head1, has1 := s.Find("head", 1)
				head32, has32 := s.Find("head", 32)
				rates := s.Rates()
				best, _ := s.Find("layer", rates.Chunk)
				fmt.Fprintf(b, "| %s | %s (%d) | %s | %s | %s | %s / %s | %.2f | %.2f | %s | %.0f at %d | %.2f |\n", shape, chip.Name, chip.SoC, recipe,
					strings.Join(us, " / "), strings.Join(spill, " / "), known0(has1, "%.0f", head1.Us)+r.eighths(shape, chip.SoC, recipe), known0(has32, "%.0f", head32.Us),
					rates.Flat, rates.Reads, known0(has1, "%.1f", rates.Decode), rates.Prefill, rates.Chunk,
					best.Us*1024/float64(max(rates.Chunk, 1))/1e3)
			}
		}
	}
}

// eighths marks heads of which an eighth was simulated.
func (r *record) eighths(shape string, soc uint32, recipe string) string {
	recipe = headsOf(recipe)
	_, whole := r.find(shape, soc, recipe, "", partHead, 1)
	if _, part := r.find(shape, soc, recipe, "", partEighth, 1); part && !whole {
		return " (8 × an eighth)"
	}
	return ""
}

// known0 is a number that may not have been asked for.
func known0(known bool, format string, v float64) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// blocks tells what a layer takes among others.
func (r *record) blocks(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Blocks\n\n%d layers as one graph, as a model is cut, w8a16: µs of it, and of a layer in it.\n\n| model | chip | rows | µs | µs a layer | MB spilled | 32 : 1 rows | reads : weights and cache |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", blockLayers)
	for _, shape := range shapes {
		for _, chip := range socs() {
			s := r.result(shape, chip.SoC, "w8a16", "")
			one, _ := s.Find(partBlock, 1)
			for _, g := range s.Graphs {
				if g.Part == partBlock {
					fmt.Fprintf(b, "| %s | %s (%d) | %d | %.0f | %.0f | %.1f | %.2f | %.2f |\n", shape, chip.Name, chip.SoC, g.Rows, g.Us, g.Us/blockLayers,
						float64(g.SpillBytes)/1e6, g.Us/one.Us, float64(g.ReadBytes)/float64(g.WeightBytes+g.CacheBytes))
				}
			}
		}
	}
}

func (r *record) forms(b *strings.Builder) {
	for _, shape := range shapes {
		for _, chip := range socs() {
			for _, recipe := range recipes() {
				forms := []string{""}
				for _, w := range wants {
					if w.form != "" && !slices.Contains(forms, w.form) && len(r.result(shape, chip.SoC, recipe, w.form).Graphs) > 0 {
						forms = append(forms, w.form)
					}
				}
				if len(forms) == 1 {
					continue
				}
				for _, form := range forms {
					s := r.result(shape, chip.SoC, recipe, form)
					var us []string
					for _, n := range some {
						g, known := s.Find(partLayer, n)
						us = append(us, known0(known, "%.0f", g.Us))
					}
					one, hasOne := s.Find(partLayer, 1)
					tile, hasTile := s.Find(partLayer, 32)
					wide, hasWide := s.Find(partLayer, 128)
					if form == "" {
						form = "grouped scores, VTCM 8 MB, effort 3"
					}
					fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", shape, chip.Name, recipe, form, strings.Join(us, " / "),
						known0(hasWide, "%.1f", float64(wide.SpillBytes)/1e6), known0(hasOne && hasTile, "%.2f", tile.Us/one.Us))
				}
			}
		}
	}
}

func (r *record) published(b *strings.Builder) {
	for _, chip := range socs() {
		for _, shape := range shapes {
			if s := r.result(shape, chip.SoC, "w8a16", "").Rates(); s.Decode > 0 {
				fmt.Fprintf(b, "| %s | simulated (estimated) | %s | %.0f | %.1f |\n", chip.Name, shape, s.Prefill, s.Decode)
			}
		}
		for _, p := range Known {
			if p.SoC == chip.SoC {
				fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", chip.Name, p.Who, p.Model, known0(p.Prefill > 0, "%.0f", p.Prefill), known0(p.Decode > 0, "%.1f", p.Decode))
			}
		}
	}
}
