package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/profile"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// profileFlags are the flags of `sdnpu profile`.
type profileFlags struct {
	library, recipe, rows, out string
	blocks, context, repeats   int
	json, contact              bool
}

func newProfileCommand() *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "profile MODEL.gguf",
		Short: "Measure what each graph of a model takes on this device",
		Long: `Measure what each graph of a model takes on this device: the load and the run of
every block and of the head, in every width, and how much a load slows a run. The
profile (kind "measured", the format of the profiles that come with the program)
is kept in the image cache, for plans to be made of.

With --first-contact also everything else that a device must do is tried, step by
step: greedy texts against the recorded ones or the float device's, the cache's
gathering, the host's copies. -o names the report, which is saved after each step;
a step that fails stands in it and stops no other. The profile kept from it
replaces the fitted ones in plans.`,
		Example: "  sdnpu profile qwen2.5-1.5b.gguf --rows 256,128,32 --blocks 4\n  sdnpu profile qwen2.5-1.5b.gguf --first-contact -o report.json",
		Args:    oneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.library, "library", "", libraryUsage)
	flags.StringVar(&f.recipe, "recipe", "", recipeUsage())
	flags.StringVar(&f.rows, "rows", "", rowsUsage)
	flags.IntVar(&f.blocks, "blocks", 0, blocksUsage)
	flags.IntVar(&f.context, "context", 0, contextUsage)
	flags.IntVar(&f.repeats, "repeats", 5, "loads and runs of each graph; medians count")
	flags.StringVarP(&f.out, "output", "o", "", "also write the profile, or the report of --first-contact, to this file")
	flags.BoolVar(&f.contact, "first-contact", false, "try and measure everything, and report it; widths are 128 to 1 where --rows names none")
	flags.BoolVar(&f.json, "json", false, "print the profile, or the report of --first-contact")
	return cmd
}

func (f *profileFlags) run(cmd *cobra.Command, path string) error {
	if f.repeats < 1 || f.repeats > 1000 {
		return fmt.Errorf("--repeats %d: 1 to 1000 wanted", f.repeats)
	}
	if f.contact {
		return f.meet(cmd, path)
	}
	p, where, err := f.measure(cmd, path)
	if err != nil {
		return err
	}
	text, err := profile.Text(p)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := writeFile(cmd.Context(), f.out, 0o644, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
	}
	if f.json {
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return printProfile(cmd.OutOrStdout(), p, where)
}

// measure measures and keeps; where is the file, empty without a cache.
func (f *profileFlags) measure(cmd *cobra.Command, path string) (_ *graphswap.Profile, where string, err error) {
	ctx := cmd.Context()
	s, err := readSettings()
	if err != nil {
		return nil, "", err
	}
	if s.costs = true; f.library != "" {
		s.library = f.library
	}
	if err := s.canKeep(profilesFolder); err != nil {
		return nil, "", err
	}
	c, err := resolveConfig(path, map[string]string{"sdnpu.recipe": f.recipe, "sdnpu.rows": f.rows, "sdnpu.blocks": countText(f.blocks)})
	if err != nil {
		return nil, "", err
	}
	file, err := openGGUF(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m, err := model.Load(file)
	if err != nil {
		return nil, "", err
	}
	tok, err := tokenizer.New(file)
	if err != nil {
		return nil, "", err
	}
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	logger := newLogger(cmd.ErrOrStderr(), false)
	dev, err := s.openDevice(ctx, os.Args[0], logger)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	options, err := s.engineOptions(ctx, job{path: path, config: c, context: f.context, sequences: 1, logger: logger, progress: bar.step}, m, tok, modelName(file))
	if err != nil {
		return nil, "", err
	}
	if err := s.compileElsewhere(dev, file, logger, &options); err != nil {
		return nil, "", err
	}
	measured, err := engine.Measure(ctx, dev, m, options, engine.MeasureOptions{Repeats: f.repeats})
	if err != nil {
		return nil, "", err
	}
	about := aboutModel(path, m.Config(), options.Recipe.Name)
	about.Device, about.SoC = describe(dev.Capabilities()), dev.Capabilities().SoC
	p, err := profile.Measured(measured, about)
	if err != nil || s.cache == "" {
		return p, "", err
	}
	where, err = s.keepProfile(p, measured, dev.Capabilities(), m, options.Recipe.Name)
	return p, where, err
}

// keepProfile keeps a profile where plans look for it.
func (s settings) keepProfile(p *graphswap.Profile, measured *engine.Measurements, c backend.Capabilities, m *model.Model, recipe string) (where string, err error) {
	key := s.profileKey(c, m, recipe, len(measuredModel(p).Blocks), measured.Slots)
	return s.profiles().Path(key), s.profiles().Put(key, p)
}

func (s settings) profileKey(c backend.Capabilities, m *model.Model, recipe string, blocks, slots int) profile.Key {
	return profile.Key{Fingerprint: c.Fingerprint, Clock: s.clock, Digest: m.Digest(), Recipe: recipe, Blocks: blocks, Slots: slots}
}

// knownCosts gives plans the profile that was measured of this device and model,
// where one is kept that has their widths. Else they go by what the graphs take
// as they are loaded.
func (s settings) knownCosts(c backend.Capabilities, m *model.Model, o *engine.Options, logger *slog.Logger) {
	if o.Plan == "" || s.cache == "" {
		return
	}
	rows, blocks, slots, err := o.Shape(m.Config())
	if err != nil { // the engine says so
		return
	}
	p, err := s.profiles().Get(s.profileKey(c, m, o.Recipe.Name, blocks, slots))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return
	case err != nil:
		logger.Warn("the measured profile cannot be read: plans go by what graphs take as they are loaded", "detail", err, "remedy", "measure anew with sdnpu profile")
		return
	}
	for name, one := range p.Models {
		for _, b := range one.Blocks {
			for _, n := range rows {
				if _, ok := b.Widths[n]; !ok {
					logger.Info("the measured profile has no graphs of this width: plans go by what graphs take as they are loaded", "rows", n)
					return
				}
			}
		}
		o.Costs = &graphswap.Cost{Profile: p, Name: name, Model: one}
	}
}

// profiles is the folder of measured profiles, in the cache, which is there.
func (s settings) profiles() profile.Folder {
	return profile.Folder(filepath.Join(s.cache, profilesFolder))
}

func aboutModel(path string, c model.Config, recipe string) profile.About {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return profile.About{Model: name, Recipe: recipe, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab}
}

// measuredModel is the one model of a measured profile.
func measuredModel(p *graphswap.Profile) graphswap.Model {
	for _, m := range p.Models {
		return m
	}
	return graphswap.Model{}
}

// measuredRows are the widths of the blocks, descending.
func measuredRows(p *graphswap.Profile) []int {
	rows := slices.Sorted(maps.Keys(measuredModel(p).Blocks[0].Widths))
	slices.Reverse(rows)
	return rows
}

func printProfile(w io.Writer, p *graphswap.Profile, where string) error {
	m := measuredModel(p)
	fmt.Fprintf(w, "%s\nprofile %s\n\n", p.Device, p.Confidence["models"]) // which begins with the kind
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "graph\tlayers\trows\tMB\tload ms\trun ms\tms per row\t")
	line := func(name string, g *graphswap.MeasuredGraph) {
		for _, rows := range slices.Sorted(maps.Keys(g.Widths)) {
			w := g.Widths[rows]
			fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.3f\t\n", name, g.Layers, rows, float64(w.Bytes)/1e6, w.LoadMs, w.RunMs, w.RunMs/float64(rows))
		}
	}
	for i := range m.Blocks {
		line(fmt.Sprintf("block%d", i), &m.Blocks[i])
	}
	line("head", m.Head)
	if err := t.Flush(); err != nil {
		return err
	}
	speed := fmt.Sprintf("and %.2f GB/s", p.Load.BandwidthGBps)
	if p.Load.BandwidthGBps >= profile.Fastest {
		speed = "whatever their bytes"
	}
	fmt.Fprintf(w, "\nloads: %.2f ms %s; a run beside a load takes %.2f times as long\n", p.Load.LatencyMs, speed, p.Load.Slowdown)
	fmt.Fprintf(w, "a pass: %.3f ms a layer whatever its rows; for all layers %.2f ms each %d rows and %.4f ms a row, %.0f %% of that by context\n",
		m.DispatchMs, m.TileMs, p.Compute.TileRows, m.RowMs, 100*p.Compute.RowContextShare)
	if where != "" {
		fmt.Fprintln(w, "kept as", where)
	}
	return nil
}
