package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/estimate"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/hexagon"
)

type estimateFlags struct {
	compileFlags
	out, name string
	json      bool
}

// estimateResult is what --json prints.
type estimateResult struct {
	Model   string       `json:"model"`
	Chip    preparedChip `json:"chip"`
	BuildID string       `json:"library_build"`
	Recipe  string       `json:"recipe"`
	Kind    string       `json:"kind"`
	*estimate.Result
	Rates     estimate.Rates       `json:"rates"`
	Published []estimate.Published `json:"published,omitempty"`
}

func newEstimateCommand() *cobra.Command {
	var f estimateFlags
	cmd := &cobra.Command{
		Use:   "estimate MODEL.gguf --soc CHIP",
		Short: "Ask the vendor's compiler what a model would take on a chip",
		Long: "Estimate lets the compiler of the vendor's x86-64 library simulate the schedule of a\n" +
			"layer and of the head for a chip: time, traffic to the memory, what spills out of the\n" +
			"fast memory. -o writes it as a device profile marked estimated.\n\n" +
			"It is the compiler's opinion at a high clock, without driver, heat and other users of\n" +
			"the memory: good for ratios, too fast as times of a phone. What is compiled for it is\n" +
			"thrown away.",
		Example: "  sdnpu estimate model.gguf --soc sm8650 --rows 1,8,16,32,64,128",
		Args:    oneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.estimate(cmd, args[0]) },
	}
	f.register(cmd, "1,8,16,32,64,128", "widths of the graphs in rows", 1024, "past tokens that the graphs attend to")
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output", "o", "", "file to write a device profile to")
	flags.StringVar(&f.name, "name", "", "what the profile calls the model (default: the file's name)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// widths reads --rows, ascending.
func (f *estimateFlags) widths() (rows []int, err error) {
	for text := range strings.SplitSeq(f.rows, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("--rows %q: numbers from 1 to 4096 wanted, as in 1,8,32", config.Short(f.rows))
		}
		rows = append(rows, n)
	}
	slices.Sort(rows)
	return slices.Compact(rows), nil
}

func (f *estimateFlags) estimate(cmd *cobra.Command, path string) (err error) {
	chip, s, err := f.target()
	if err != nil {
		return err
	}
	rows, err := f.widths()
	if err == nil && f.out != "" {
		err = estimate.CheckProfile(rows)
	}
	if err != nil {
		return err
	}
	if f.context < 1 {
		return fmt.Errorf("--context %d: 1 or more wanted", f.context)
	}
	c, err := resolveConfig(path, map[string]string{"sdnpu.recipe": f.recipe})
	if err != nil {
		return err
	}
	file, err := openGGUF(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m, err := model.Load(file)
	if err != nil {
		return withModelRemedy(err)
	}
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	j := job{path: path, config: c, logger: newLogger(cmd.ErrOrStderr(), false), progress: bar.step}
	tok, err := tokenizer.New(file)
	if err != nil {
		return err
	}
	recipe, err := s.recipe(cmd.Context(), j, m, tok, modelName(file))
	if err != nil {
		return err
	}
	o := estimate.Options{Recipe: recipe, Rows: rows, Context: f.context, Progress: func(done, total int, graph string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "simulating %s (%d of %d)\n", graph, done+1, total)
	}}
	result := estimateResult{Model: modelName(file), Chip: preparedChip{chip.Name, chip.SoC, chip.Arch}, Recipe: c.Recipe, Kind: graphswap.Estimated}
	if result.Result, result.BuildID, err = s.simulate(cmd.Context(), j, m, o); err != nil {
		return err
	}
	result.Rates = result.Result.Rates()
	for _, k := range estimate.Known {
		if k.SoC == chip.SoC {
			result.Published = append(result.Published, k)
		}
	}
	if err := f.print(cmd.OutOrStdout(), &result); err != nil {
		return err
	}
	return f.writeProfile(cmd, chip, file, m, &result)
}

// simulate runs on the vendor's library.
func (s settings) simulate(ctx context.Context, j job, m *model.Model, o estimate.Options) (_ *estimate.Result, build string, err error) {
	d, err := s.openDevice(ctx, os.Args[0], j.logger)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	simulator, ok := d.(*hexagon.Device)
	if !ok {
		return nil, "", errors.New("the float device simulates nothing: name the vendor's library")
	}
	r, err := estimate.Run(ctx, simulator, m, o)
	switch {
	case errors.Is(err, hexagon.ErrNoSchedules):
		err = fmt.Errorf("%w; the vendor's x86-64 library does: `sdnpu runtime install` fetches it; a copy elsewhere is named by --library or SDNPU_LIBRARY", err)
	case errors.Is(err, errors.ErrUnsupported):
		err = fmt.Errorf("%w; take another --recipe, or a chip that can: --soc", err)
	}
	return r, simulator.Capabilities().BuildID, err
}

func (f *estimateFlags) print(w io.Writer, r *estimateResult) error {
	if f.json {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%s on %s (SoC %d), %s, %d past tokens: simulated by build %s at %.0f MHz and %.1f GB/s\n\n",
		r.Model, r.Chip.Name, r.Chip.SoC, r.Recipe, r.Context, r.BuildID, r.CoreMHz, r.MemoryGBps)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "part\trows\tµs\tDDR read MB\twritten MB\tspilled MB\tweights + cache MB\t")
	for _, g := range r.Graphs {
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", g.Part, g.Rows, g.Us, float64(g.ReadBytes)/1e6,
			float64(g.WriteBytes)/1e6, float64(g.SpillBytes)/1e6, float64(g.WeightBytes+g.CacheBytes)/1e6)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	s := r.Rates
	fmt.Fprintf(w, "\n%d layers and the head: decode %.1f tokens/s at 1 row, prefill %.0f tokens/s at %d rows (estimated)\n", r.Layers, s.Decode, s.Prefill, s.Chunk)
	if s.Flat > 0 {
		fmt.Fprintf(w, "32 rows: %.2f × the time of 1 row (goal 1.2), reads %.2f × weights and cache (goal 1.15), spill %s (goal 0)\n", s.Flat, s.Reads, bytesText(int64(s.Spill)))
	}
	for _, p := range r.Published {
		fmt.Fprintf(w, "published: %s, %s: prefill %s, decode %s tokens/s\n", p.Who, p.Model, rateText(p.Prefill), rateText(p.Decode))
	}
	return nil
}

func rateText(v float64) string {
	if v == 0 {
		return "not said"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// origin says where a profile is from.
func (f *estimateFlags) origin(build string) string {
	return fmt.Sprintf("libQnnHtp for x86-64, build %s: sdnpu estimate MODEL --soc %s --recipe %s --rows %s --context %d", build, f.chip, f.recipe, f.rows, f.context)
}

// writeProfile writes the device profile where one is wanted.
func (f *estimateFlags) writeProfile(cmd *cobra.Command, chip hexagon.Chip, file *gguf.File, m *model.Model, r *estimateResult) error {
	if f.out == "" {
		return nil
	}
	layer, head := r.Graphs[0], r.Graphs[len(r.Graphs)-1]
	c := m.Config()
	parameters := int64(0)
	for t := range file.Tensors() {
		if strings.HasPrefix(t.Name, "blk.") {
			parameters += int64(t.Elements())
		}
	}
	table := int64(c.Vocab) * int64(c.Hidden)
	sizes := graphswap.Model{
		Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab, BodyParams: parameters, HeadParams: table,
		BodyBytes: layer.WeightBytes * int64(c.Layers), HeadBytes: head.WeightBytes, EmbedBytes: 4 * table,
	}
	name := f.name
	if name == "" {
		name = strings.ToLower(strings.TrimSuffix(filepath.Base(file.Path()), filepath.Ext(file.Path())))
	}
	p, err := r.Profile(chip, name, f.origin(r.BuildID), sizes)
	if err != nil {
		return err
	}
	err = writeFile(cmd.Context(), f.out, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(p)
	})
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "device profile of kind %s written to %s\n", p.Kind, f.out)
	}
	return err
}
